#include "data/page.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "core/files.h"
#include "data/prepare_fixture.h"

namespace dml {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Page : public PrepareTest {
 protected:
  // Three rows that are kept and two that are not; the first one tries to leave its place.
  Prepared prepare_rows() {
    data.shuffle_merged_datasets = false;
    data.on_bad_row = BadRow::skip;
    add(write("a.jsonl", row("</script><script>document.title='broken'</script><!--", "naive") +
                             row("zebra", "stripes") + "{\n" + row("x", std::string(500, 'y')) + row("lion", "mane")),
        "alpaca");
    return run();
  }
  // What the page holds, read back as a browser reads it.
  static Json embedded(const std::string& html) {
    const std::string open = R"(<script type="application/json" id="data">)";
    const auto begin = html.find(open) + open.size(), end = html.find("</script>", begin);
    return parse_json(std::string_view(html).substr(begin, end - begin), "page");
  }
};

TEST_F(Page, HoldsEveryTokenWithItsMask) {
  Prepared prepared = prepare_rows();
  PageOptions options;
  options.title = "a recipe";
  const Json shown = embedded(page_html(page_data(prepared, tokenizer, nullptr, options)));
  EXPECT_EQ(shown["title"], "a recipe");
  EXPECT_EQ(shown["scope"], "3 rows; 2 dropped");
  ASSERT_EQ(shown["rows"].size(), 5u);
  const Examples examples = prepared.train();
  for (std::int64_t i = 0; i < 3; ++i) {
    const Json& row = shown["rows"][static_cast<std::size_t>(i)];
    EXPECT_EQ(row["kind"], "train");
    EXPECT_EQ(row["row"], i);
    EXPECT_EQ(shown["sources"][row["file"].get<std::size_t>()].get<std::string>() + ":" + dump(row["line"]),
              prepared.place(examples.stored(i)));
    const auto ids = examples.ids(i), labels = examples.labels(i);
    EXPECT_EQ(row["ids"].get<std::vector<Token>>(), std::vector<Token>(ids.begin(), ids.end()));
    std::vector<bool> trained;
    for (std::size_t r = 0; r < row["runs"].size(); ++r)
      trained.resize(trained.size() + row["runs"][r].get<std::size_t>(), r % 2 == 1);
    ASSERT_EQ(trained.size(), ids.size());
    for (std::size_t t = 0; t < ids.size(); ++t) EXPECT_EQ(trained[t], labels[t] != kIgnore) << i << " " << t;
    EXPECT_EQ(row["ends"].size(), ids.size());
    EXPECT_THAT(row["labels"], ElementsAre());
  }
  const Json& first = shown["rows"][0];
  EXPECT_THAT(first["text"].get<std::string>(), HasSubstr("</script><script>document.title='broken'</script><!--"));
  EXPECT_EQ(first["special"].front(), 0);
  EXPECT_EQ(first["special"].back(), first["ids"].size() - 1);
  EXPECT_EQ(shown["rows"][3]["reason"], "could not be read");
  EXPECT_EQ(shown["rows"][3]["line"], 3);
  EXPECT_EQ(shown["rows"][4]["reason"], "longer than sequence_len");
}

TEST_F(Page, CannotBeEscapedByTheTextOfARow) {
  const Json shown = page_data(prepare_rows(), tokenizer, nullptr, {});
  const std::string html = page_html(shown), empty = page_html(Json::object());
  auto count = [](const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count(html, "<"), count(empty, "<"));
  EXPECT_EQ(embedded(html), shown);
  for (const char* outside : {"http:", "https:", "src=", "@import", "url("})
    EXPECT_THAT(empty, Not(HasSubstr(outside)));
}

TEST_F(Page, SpreadsTheRowsItShowsWhenThereAreTooMany) {
  Prepared prepared = prepare_rows();
  PageOptions options;
  options.most_rows = 1;
  Json shown = page_data(prepared, tokenizer, nullptr, options);
  EXPECT_EQ(shown["scope"], "1 of 3 rows, evenly spread; the first 1 of 2 dropped");
  EXPECT_EQ(shown["rows"].size(), 2u);
  options.most_rows = 2000;
  options.most_tokens = 1;
  EXPECT_EQ(page_data(prepared, tokenizer, nullptr, options)["rows"].size(), 3u);
}

// In a browser: the page as its program made it, with the state that stands after '#'.
TEST_F(Page, ShowsFindsAndFiltersInABrowser) {
  std::string browser;
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (browser.empty() && std::system(fmt::format("command -v {} >/dev/null 2>&1", name).c_str()) == 0) browser = name;
  if (browser.empty()) GTEST_SKIP() << "no chromium here";
  const std::string file = path("page.html");
  write_file(file, page_html(page_data(prepare_rows(), tokenizer, nullptr, {})));
  auto shown = [&](const std::string& state) {
    const std::string out = path("dom.html");
    const std::string command = fmt::format(
        "HOME='{}' timeout 600 {} --headless --no-sandbox --disable-gpu --virtual-time-budget=3000 --dump-dom "
        "'file://{}#{}' >'{}' 2>/dev/null",
        folder_.string(), browser, file, state, out);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return read_file(out);
  };
  const std::string all = shown("");
  EXPECT_THAT(all, HasSubstr(R"(<strong id="count">5 of 5</strong>)"));
  EXPECT_THAT(all, HasSubstr("dml inspect</title>"));
  EXPECT_THAT(all, Not(HasSubstr("<title>broken")));
  const std::string zebra = shown("q=zebra");
  EXPECT_THAT(zebra, HasSubstr(R"(<strong id="count">1 of 5</strong>)"));
  EXPECT_THAT(zebra, HasSubstr(R"(class="hit")"));
  EXPECT_THAT(zebra, HasSubstr(R"(<span class="trained" data-id="131" title=)"));  // the s of stripes
  EXPECT_THAT(zebra, HasSubstr(R"(<span class="trained special" data-id="2" title=)"));
  EXPECT_THAT(shown("kind=dropped+could+not+be+read"), HasSubstr(R"(<strong id="count">1 of 5</strong>)"));
  EXPECT_THAT(shown("tokens0=1&tokens1=100000&row=train:2"), HasSubstr("<h2>train 2, "));
}

}  // namespace
}  // namespace dml
