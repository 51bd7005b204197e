// The length of files and functions: at most 350 and 60 lines. Longer ones are listed in tests/sizes.txt, which may
// only shrink: entries that are not needed any more must be removed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
constexpr int kFileLines = 350, kFunctionLines = 60;
const fs::path kSources = DML_SOURCE_DIR;

std::string contents(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

/// What stands in place of comments, texts, characters and preprocessor lines is nothing; line breaks stay.
std::string code_of(const std::string& s) {
  std::string out;
  std::size_t i = 0;
  const auto skip_to = [&](std::size_t end) {
    end = std::min(end, s.size());
    out.append(static_cast<std::size_t>(std::count(s.begin() + static_cast<std::ptrdiff_t>(i),
                                                   s.begin() + static_cast<std::ptrdiff_t>(end), '\n')),
               '\n');
    i = end;
  };
  bool line_start = true;
  while (i < s.size()) {
    const char c = s[i];
    const bool after_word = i > 0 && (std::isalnum(static_cast<unsigned char>(s[i - 1])) || s[i - 1] == '_');
    const bool prefixed = after_word && std::string_view("uUL").find(s[i - 1]) != std::string_view::npos &&
                          (i < 2 || !std::isalnum(static_cast<unsigned char>(s[i - 2])));
    if (line_start && c == '#') {
      std::size_t end = s.find('\n', i);
      while (end != s.npos && s[end - 1] == '\\') end = s.find('\n', end + 1);
      skip_to(end);
    } else if (s.compare(i, 2, "//") == 0) {
      skip_to(s.find('\n', i));
    } else if (s.compare(i, 2, "/*") == 0) {
      skip_to(s.find("*/", i) + 2);
    } else if (!after_word && s.compare(i, 2, "R\"") == 0) {
      const std::string end = ")" + s.substr(i + 2, s.find('(', i) - i - 2) + "\"";
      skip_to(s.find(end, i) + end.size());
    } else if (c == '"' || (c == '\'' && (!after_word || prefixed))) {  // not the ' of 1'000
      std::size_t end = i + 1;
      while (end < s.size() && s[end] != c) end += s[end] == '\\' ? 2 : 1;
      skip_to(end + 1);
    } else {
      line_start = c == '\n' || (line_start && c == ' ');
      out += c;
      ++i;
    }
  }
  return out;
}

/// Functions that are too long: "NAME" → lines. Lambdas count as parts of the function around them.
std::map<std::string, int> long_functions(const std::string& text) {
  static const std::regex name(R"(([A-Za-z_][\w:<>~]*)\s*\()");
  static const std::regex other(
      R"(^\s*(if|for|while|switch|else|do|try|catch|namespace|struct|class|enum|union|return)\b)");
  struct Block {
    int line;
    std::string name;  // "" for what is no function
  };
  std::map<std::string, int> out;
  std::vector<Block> open;
  std::string head;
  int line = 1;
  for (char c : code_of(text)) {
    line += c == '\n';
    if (c == '{') {
      std::smatch found;
      const bool function = head.find(')') != head.npos && !std::regex_search(head, other) &&
                            std::regex_search(head, found, name) && head.find('=') == head.npos &&
                            head.find('[') == head.npos;
      open.push_back({line, function ? found[1].str() : ""});
      head.clear();
    } else if (c == '}') {
      if (open.empty()) return {{"(unbalanced braces)", kFunctionLines + 1}};
      const Block block = open.back();
      open.pop_back();
      head.clear();
      if (const int lines = line - block.line + 1; !block.name.empty() && lines > kFunctionLines)
        out[block.name] = std::max(out[block.name], lines);
    } else if (c == ';') {
      head.clear();
    } else {
      head += c == '\n' ? ' ' : c;
    }
  }
  return out;
}

/// "FILE" or "FILE FUNCTION" → lines, of all that is too long.
std::map<std::string, int> too_long() {
  std::map<std::string, int> out;
  for (const char* folder : {"framework", "include"})
    for (auto& entry : fs::recursive_directory_iterator(kSources / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".inl") continue;
      const std::string file = fs::relative(entry.path(), kSources).generic_string(), text = contents(entry.path());
      if (const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n')); lines > kFileLines)
        out[file] = lines;
      for (const auto& [function, lines] : long_functions(text)) out[file + " " + function] = lines;
    }
  return out;
}

TEST(Sizes, FunctionsAreFoundAndMeasured) {
  std::string body;
  for (int i = 0; i < 70; ++i) body += "  f(\"}\");  // {\n";
  const auto found = long_functions("namespace a {\nint Thing::work(int x,\n          int y) const {\n" + body +
                                    "}\nstruct S {\n" + body + "};\n}\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.begin()->first, "Thing::work");
  EXPECT_EQ(found.begin()->second, 72);
}

TEST(Sizes, FilesAndFunctionsAreShortButForTheListThatShrinks) {
  std::map<std::string, int> allowed;
  std::ifstream list(kSources / "tests/sizes.txt");
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t space = line.rfind(' ');
    allowed[line.substr(0, space)] = std::stoi(line.substr(space + 1));
  }
  const std::map<std::string, int> found = too_long();
  for (const auto& [what, lines] : found) {
    const auto known = allowed.find(what);
    EXPECT_LE(lines, known == allowed.end() ? 0 : known->second)
        << what << " has " << lines << " lines; at most "
        << (what.find(' ') == what.npos ? kFileLines : kFunctionLines);
  }
  for (const auto& [what, lines] : allowed)
    EXPECT_TRUE(found.contains(what)) << what << " is no longer too long: remove its line from tests/sizes.txt";
  if (const char* to = std::getenv("DML_SIZES")) {  // writes the list anew
    std::ofstream out(to);
    for (const auto& [what, lines] : found) out << what << " " << (lines + 9) / 10 * 10 << "\n";
  }
}

}  // namespace
