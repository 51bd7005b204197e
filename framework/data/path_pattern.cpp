#include "data/path_pattern.h"

#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <span>

#include "core/error.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxFilesBelow = 100'000, kMaxAlternatives = 1000;
const std::string kAnyFolders = "**";

// The parts of a text between separators that are outside of braces.
std::vector<std::string> split_outside_braces(const std::string& text, char separator) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (char c : text) {
    depth += (c == '{') - (c == '}');
    if (c == separator && depth == 0) out.emplace_back();
    else out.back() += c;
  }
  return out;
}

// "a/{b,c}" → "a/b" and "a/c". Braces that are not closed are plain text.
std::vector<std::string> without_braces(const std::string& pattern) {
  const std::size_t open = pattern.find('{');
  std::size_t close = open;
  for (int depth = 0; close < pattern.size(); ++close) {
    depth += (pattern[close] == '{') - (pattern[close] == '}');
    if (depth == 0) break;
  }
  if (open == pattern.npos || close >= pattern.size()) return {pattern};
  std::vector<std::string> out;
  for (const std::string& choice : split_outside_braces(pattern.substr(open + 1, close - open - 1), ','))
    for (std::string& one : without_braces(pattern.substr(0, open) + choice + pattern.substr(close + 1)))
      out.push_back(std::move(one));
  if (out.size() > kMaxAlternatives) throw UserError("{}: more than {} alternatives", pattern, kMaxAlternatives);
  return out;
}

// The names of a path, without empty ones and ".".
std::vector<std::string> names_of(const std::string& path) {
  std::vector<std::string> out;
  for (const fs::path& name : fs::path(path).relative_path())
    if (!name.empty() && name != ".") out.push_back(name.string());
  return out;
}

bool names_fit(std::span<const std::string> pattern, std::span<const std::string> path) {
  if (pattern.empty()) return path.empty();
  if (path.empty()) return false;
  const bool any = pattern.front() == kAnyFolders;
  if (!any)
    return fnmatch(pattern.front().c_str(), path.front().c_str(), FNM_PERIOD) == 0 &&
           names_fit(pattern.subspan(1), path.subspan(1));
  if (path.front().starts_with('.')) return names_fit(pattern.subspan(1), path);
  if (pattern.size() == 1 && path.size() == 1) return true;
  return names_fit(pattern.subspan(1), path) || names_fit(pattern, path.subspan(1));
}

// The names of a pattern without braces.
std::vector<std::string> pattern_names(const std::string& pattern) {
  std::vector<std::string> out = names_of(pattern);
  if (pattern.ends_with('/')) out.push_back(kAnyFolders);
  for (const std::string& name : out)
    if (name.find(kAnyFolders) != name.npos && name != kAnyFolders)
      throw UserError("{}: '**' stands for folders; write **/ before the name of the file, as in data/**/*.jsonl",
                      pattern);
  // `**/**` has the meaning of `**`, and would be tried in every combination.
  out.erase(
      std::unique(out.begin(), out.end(), [](const auto& a, const auto& b) { return a == kAnyFolders && a == b; }),
      out.end());
  return out;
}

std::vector<std::string> globbed(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> out;
  if (glob(pattern.c_str(), GLOB_TILDE, nullptr, &found) == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
  globfree(&found);
  return out;
}

}  // namespace

bool is_pattern(const std::string& path) { return path.find_first_of("*?[{") != std::string::npos; }

bool fits_pattern(const std::string& pattern, const std::string& path) {
  const std::vector<std::string> names = names_of(path);
  return std::ranges::any_of(without_braces(pattern),
                             [&](const std::string& one) { return names_fit(pattern_names(one), names); });
}

std::vector<std::string> paths_of_pattern(const std::string& pattern) {
  std::vector<std::string> out;
  for (const std::string& one : without_braces(pattern)) {
    const std::size_t any = one.find(kAnyFolders);
    if (any == one.npos) {
      std::ranges::move(globbed(one), std::back_inserter(out));
      continue;
    }
    // The folders before `**`, and what lies below each.
    const std::size_t begin = any == 0 ? 0 : one.rfind('/', any) + 1;
    const std::string inner = one.substr(begin);
    const std::vector<std::string> names = pattern_names(inner);
    for (const std::string& folder : begin == 0 ? std::vector<std::string>{""} : globbed(one.substr(0, begin)))
      for (const std::string& file : files_below(folder.empty() ? "." : folder))
        if (names_fit(names, names_of(file))) out.push_back((fs::path(folder) / file).string());
  }
  std::set<std::string> seen;  // alternatives may overlap
  std::erase_if(out, [&](const std::string& path) { return !seen.insert(path).second; });
  return out;
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error, unreadable;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end && out.size() < kMaxFilesBelow;
       it.increment(error)) {
    if (it->path().filename().string().starts_with('.')) it.disable_recursion_pending();
    else if (it->is_regular_file(unreadable)) out.push_back(it->path().lexically_relative(folder).string());
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace dml
