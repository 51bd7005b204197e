// dml tokenize, preprocess and inspect.
#include <algorithm>
#include <filesystem>

#include "e2e/commands.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::HasSubstr;

const std::string kTokenizer = DML_SOURCE_DIR "/datasets/quickstart/tokenizer";

// A read error is an error, not the end of the input.
TEST_F(Commands, TokenizeDoesNotMistakeAnErrorForTheEnd) {
  auto tokenize = [&](const std::string& input) { return dml({"tokenize", "--model", kTokenizer, "--input", input}); };
  EXPECT_EQ(tokenize(at("")).exit, 2);
  EXPECT_EQ(tokenize(at("nothing.jsonl")).exit, 2);
  const Ended large = tokenize(write("large.jsonl", "{\"text\": \"" + std::string(9 << 20, 'x') + "\"}\n"));
  EXPECT_EQ(large.exit, 2);
  EXPECT_THAT(large.err, HasSubstr("large.jsonl:1: the row has more than 8 MiB"));
  const Ended cut = tokenize(write("cut.jsonl", "{\"text\": \"a\"}\n{\"text"));
  EXPECT_EQ(cut.exit, 2);
  EXPECT_THAT(cut.err, HasSubstr("cut.jsonl:2: "));
  EXPECT_EQ(tokenize(write("mark.jsonl", "\xef\xbb\xbf{\"text\": \"a\"}\n")).exit, 0);
}

TEST_F(Commands, TokenizeSurvivesTheRoundTrip) {
  const std::string text = "Tell me about a hammer.\n  Two  spaces, <s> and é.";
  std::string ids = out_of({"tokenize", "--model", kTokenizer, "--text", text});
  EXPECT_EQ(std::ranges::count(ids, '\n'), 1);
  EXPECT_EQ(out_of({"tokenize", "--model", kTokenizer, "--file", write("t.txt", text)}), ids);
  EXPECT_EQ(out_of({"tokenize", "--model", kTokenizer, "--input",
                    write("t.jsonl", dump(Json{{"text", text}}) + "\n" + dump(Json{{"text", "b"}}) + "\n")})
                .substr(0, ids.size()),
            ids);
  Json special = parse_json(out_of({"tokenize", "--model", kTokenizer, "--text", text, "--special"}), "ids"),
       plain = parse_json(ids, "ids");
  EXPECT_GE(special.size(), plain.size());
  EXPECT_EQ(out_of({"tokenize", "--model", kTokenizer, "--decode", "--text", ids}), dump(Json(text)) + "\n");
  EXPECT_EQ(out_of({"tokenize", "--model", kTokenizer, "--decode", "--input",
                    write("i.jsonl", dump(Json{{"ids", plain}}) + "\n")}),
            dump(Json(text)) + "\n");
  EXPECT_EQ(dml({"tokenize", "--model", kTokenizer}).exit, 2);
  EXPECT_EQ(dml({"tokenize", "--model", kTokenizer, "--decode", "--text", "[99999999]"}).exit, 2);
  EXPECT_EQ(dml({"tokenize", "--model", at("none"), "--text", "a"}).exit, 2);
}

TEST_F(Commands, PreprocessAndInspectShowWhatIsTrained) {
  std::string r = recipe("r.yml", tiny_model());
  std::string folder = out_of({"preprocess", r});
  EXPECT_TRUE(fs::is_directory(folder.substr(0, folder.size() - 1)));
  EXPECT_EQ(out_of({"preprocess", r}), folder);
  EXPECT_THAT(out_of({"inspect", r}), HasSubstr("44 rows"));
  EXPECT_THAT(out_of({"inspect", r, "--row", "3"}), HasSubstr("row 3"));
  std::vector<Json> rows = json_lines(write("rows.out", out_of({"inspect", r, "--rows", "2", "--json"})));
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_THAT(out_of({"inspect", r, "--split", "validation", "--row", "0", "--ids"}), HasSubstr("-100"));
  EXPECT_EQ(dml({"inspect", r, "--row", "44"}).exit, 2);
  EXPECT_EQ(dml({"inspect", r, "--split", "test"}).exit, 2);
}

}  // namespace
}  // namespace dml::e2e
