// Our templates render what the models' own do.
#include "prompt/chat_formats.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "jinja/template.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
constexpr const char* kCases = DML_SOURCE_DIR "/../shared/data/chat-templates/cases/";

TEST(ChatFormats, AllParse) {
  for (auto& f : chat_formats()) EXPECT_NO_THROW(jinja::Template(f.source, f.name)) << f.name;
  EXPECT_EQ(find_chat_format("chatml"), &chat_formats()[0]);
  EXPECT_EQ(find_chat_format("nope"), nullptr);
}

// tools/make_chat_golden.py: texts that the models' own templates give.
TEST(ChatFormats, OfNewerModelsGiveTheTextsOfTheModelsOwn) {
  const Json golden = read_json(DML_SOURCE_DIR "/tests/golden/chat_formats.json");
  const std::string day = golden["day"];
  std::size_t seen = 0;
  for (const Json& c : golden["cases"]) {
    const std::string name = c["template"], title = name + " " + c["id"].get<std::string>() + " " + dump(c["context"]);
    static const std::regex today(R"(strftime_now\("[^"]*"\))");
    const std::string source = std::regex_replace(find_chat_format(name)->source, today, "\"" + day + "\"");
    Json context = c["context"];
    if (c.contains("tools")) context["tools"] = golden["tools"];
    std::string text, error;
    try {
      text = jinja::Template(source, name).render(jinja::from_json(context)).text;
    } catch (const UserError& e) {
      error = e.what();
    }
    ++seen;
    if (c.contains("expected")) EXPECT_EQ(text, c["expected"].get<std::string>()) << title << error;
    else EXPECT_NE(error, "") << title << " gave " << text;
  }
  EXPECT_GT(seen, 100u);
}

class SameAsPublished : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

struct Outcome {
  std::string text, error;
};
Outcome render(const jinja::Template& t, const Json& context) {
  try {
    return {t.render(jinja::from_json(context)).text, ""};
  } catch (const UserError& e) {
    return {"", e.what()};
  }
}

/// The collection of the ct- files writes its templates on many lines and takes newlines and indents out before use.
std::string without_layout(const std::string& source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source.compare(i, 4, "    ") == 0) i += 3;
    else if (source[i] != '\n') out += source[i];
  }
  return out;
}

TEST_P(SameAsPublished, InEveryCase) {
  const auto [name, file] = GetParam();
  const std::string path = std::string(kCases) + file + ".json";
  if (!fs::exists(path)) GTEST_SKIP() << "no " << path;
  const jinja::Template ours(find_chat_format(name)->source, name);
  const Json published = read_json(path);
  const bool spread = std::string(file).starts_with("ct-");
  const std::string source = read_file(kCases + published["template"].get<std::string>());
  const jinja::Template theirs(spread ? without_layout(source) : source, file);
  for (auto& c : published["cases"]) {
    const std::string id = c["id"];
    const Outcome got = render(ours, c["context"]);
    if (c.contains("expected")) {
      EXPECT_EQ(got.text, spread ? render(theirs, c["context"]).text : c["expected"].get<std::string>())
          << id << " " << got.error;
    } else if (c["error"].get<std::string>().starts_with("TemplateError")) {  // a raise_exception of theirs
      EXPECT_NE(got.error, "") << id << " gave " << got.text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, SameAsPublished,
    ::testing::Values(std::pair{"chatml", "axolotl-chatml"}, std::pair{"llama3", "axolotl-llama3"},
                      std::pair{"llama2", "ct-llama-2-chat"}, std::pair{"mistral_v1", "axolotl-mistral_v1"},
                      std::pair{"mistral_v2v3", "axolotl-mistral_v2v3"}, std::pair{"gemma", "axolotl-gemma"},
                      std::pair{"gemma3", "axolotl-gemma3"}, std::pair{"phi_3", "axolotl-phi_3"},
                      std::pair{"phi_35", "axolotl-phi_35"}, std::pair{"phi_4", "axolotl-phi_4"},
                      std::pair{"qwen_25", "axolotl-qwen_25"}, std::pair{"qwen3", "axolotl-qwen3"},
                      std::pair{"deepseek_v2", "axolotl-deepseek_v2"}, std::pair{"alpaca", "axolotl-alpaca"},
                      std::pair{"metharme", "axolotl-metharme"}, std::pair{"cohere", "axolotl-cohere"},
                      std::pair{"aya", "axolotl-cohere"}, std::pair{"jamba", "axolotl-jamba"},
                      std::pair{"exaone", "axolotl-exaone"}, std::pair{"falcon_h1", "axolotl-falcon_h1"},
                      std::pair{"falcon", "ct-falcon-instruct"}, std::pair{"openchat", "ct-openchat-3.5"},
                      std::pair{"vicuna", "ct-vicuna"}, std::pair{"zephyr", "ct-zephyr"}),
    [](const auto& row) { return std::string(row.param.first); });

}  // namespace
}  // namespace dml
