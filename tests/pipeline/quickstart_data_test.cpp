// The claims of datasets/README.md that need no model: no held-out question is in the training data, and the measure
// recognizes a pirate.
#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "core/files.h"
#include "core/json.h"

namespace dml {
namespace {

const std::string kQuickstartFolder = DML_SOURCE_DIR "/datasets/quickstart/";

std::vector<std::string> lines(const std::string& name) {
  std::vector<std::string> out;
  const std::string text = read_file(kQuickstartFolder + name);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::vector<std::string> column(const std::string& name, const char* key) {
  std::vector<std::string> out;
  for (const std::string& line : lines(name)) out.push_back(json_string(parse_json(line, name), key, "", name));
  return out;
}

bool is_pirate(const std::string& answer) {
  static const std::vector<std::string> list = lines("pirate_words.txt");
  static const std::set<std::string> pirate(list.begin(), list.end());
  std::set<std::string> found;
  std::string word;
  for (char c : answer + " ") {
    if (std::isalpha(static_cast<unsigned char>(c)) || c == '\'') {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else {
      if (pirate.count(word)) found.insert(word);
      word.clear();
    }
  }
  return found.size() >= 2;
}

TEST(QuickstartData, NoHeldOutQuestionStandsInATrainingFile) {
  std::set<std::string> trained;
  for (const char* file : {"plain_questions.jsonl", "pirate.jsonl"}) {
    for (std::string& q : column(file, "instruction")) trained.insert(std::move(q));
  }
  const std::vector<std::string> held = column("heldout.jsonl", "instruction");
  EXPECT_EQ(held.size(), 100u);
  EXPECT_EQ(std::set<std::string>(held.begin(), held.end()).size(), 100u);
  for (const std::string& q : held) EXPECT_EQ(trained.count(q), 0u) << q;
}

TEST(QuickstartData, TheMeasureTellsPlainAnswersFromAPirates) {
  for (const std::string& answer : column("heldout.jsonl", "plain")) EXPECT_FALSE(is_pirate(answer)) << answer;
  for (const std::string& answer : column("heldout.jsonl", "pirate")) EXPECT_TRUE(is_pirate(answer)) << answer;
  for (const std::string& answer : column("pirate.jsonl", "output")) EXPECT_TRUE(is_pirate(answer)) << answer;
}

}  // namespace
}  // namespace dml
