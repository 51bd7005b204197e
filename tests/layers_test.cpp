// The structure of the code, read from the sources: which folder may include which (the dml_module lines of
// framework/CMakeLists.txt), and which files may include third-party headers.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;
const fs::path kFramework = fs::path(DML_SOURCE_DIR) / "framework", kContract = fs::path(DML_SOURCE_DIR) / "include";

std::string text_of(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// Folder → the folders it may include, in the order of the file.
struct Modules {
  std::vector<std::string> order;
  std::map<std::string, std::set<std::string>> may;

  Modules() {
    std::istringstream lines(text_of(kFramework / "CMakeLists.txt"));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("dml_module(")) continue;
      std::istringstream words(line.substr(11, line.find(')') - 11));
      std::string name, word, list;
      words >> name;
      order.push_back(name);
      while (words >> word) {
        if (word == "DEPENDS" || word == "PACKAGES") list = word;
        else if (list == "DEPENDS") may[name].insert(word);
      }
    }
  }
};

struct Include {
  std::string file, folder, header;  // file and header below framework/
  bool ours = false;                 // "header", not <header>
};

std::vector<Include> all_includes() {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> out;
  for (auto& entry : fs::recursive_directory_iterator(kFramework)) {
    if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp" && entry.path().extension() != ".inl")
      continue;
    fs::path relative = fs::relative(entry.path(), kFramework);
    std::istringstream lines(text_of(entry.path()));
    std::smatch match;
    for (std::string line; std::getline(lines, line);)
      if (std::regex_search(line, match, pattern))
        out.push_back({relative.generic_string(), relative.begin()->string(), match[2], match[1] == "\""});
  }
  return out;
}

TEST(Layers, TheTestSeesTheSources) {
  EXPECT_GE(Modules().order.size(), 14u);
  EXPECT_GT(all_includes().size(), 500u);
}

TEST(Layers, EveryFolderIsDeclared) {
  std::set<std::string> declared, there;
  for (auto& name : Modules().order) declared.insert(name);
  for (auto& entry : fs::directory_iterator(kFramework))
    if (entry.is_directory()) there.insert(entry.path().filename());
  EXPECT_EQ(declared, there);
}

TEST(Layers, ArrowsPointAtFoldersDeclaredBefore) {
  Modules modules;
  std::set<std::string> before;
  for (auto& name : modules.order) {
    for (auto& other : modules.may[name]) EXPECT_TRUE(before.contains(other)) << name << " depends on " << other;
    before.insert(name);
  }
}

TEST(Layers, NothingIsIncludedThatIsNotDeclared) {
  Modules modules;
  for (const Include& i : all_includes()) {
    if (!i.ours) continue;
    if (i.header.starts_with("dml/")) {
      EXPECT_TRUE(fs::exists(kContract / i.header)) << i.file << " includes " << i.header << ", which is not there";
      EXPECT_EQ(i.folder, "plugin") << i.file << " includes " << i.header
                                    << ": the contract of plug-ins is known to their adapters";
      continue;
    }
    EXPECT_TRUE(fs::exists(kFramework / i.header)) << i.file << " includes " << i.header << ", which is not there";
    std::string folder = i.header.substr(0, i.header.find('/'));
    EXPECT_TRUE(folder == i.folder || modules.may[i.folder].contains(folder)) << i.file << " includes " << i.header;
  }
}

// The headers for plug-ins include nothing of the framework.
TEST(Layers, TheContractOfPlugInsStandsByItself) {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::size_t headers = 0;
  for (auto& entry : fs::directory_iterator(kContract / "dml")) {
    ++headers;
    std::istringstream lines(text_of(entry.path()));
    std::smatch match;
    for (std::string line; std::getline(lines, line);)
      if (std::regex_search(line, match, pattern)) {
        const std::string header = match[2];
        EXPECT_TRUE(match[1] == "\"" ? header.starts_with("dml/") && fs::exists(kContract / header)
                                     : header == "nlohmann/json.hpp" || header.find_first_of("./") == std::string::npos)
            << entry.path() << " includes " << header;
      }
  }
  EXPECT_GE(headers, 9u);
}

TEST(Layers, OnlyKernelsIncludeTheInnerLoops) {
  for (const Include& i : all_includes())
    if (i.header.starts_with("kernels/simd/")) {
      EXPECT_EQ(i.folder, "kernels") << i.file << " includes " << i.header;
    }
}

TEST(Layers, TheTextHalfAndTheMathHalfAreIndependent) {
  const std::set<std::string> text{"recipe", "tokenizer", "jinja", "prompt", "data"},
      math{"kernels", "nn", "model", "dist", "optim", "checkpoint", "generate"};
  Modules modules;
  for (auto& name : modules.order)
    for (auto& other : modules.may[name])
      EXPECT_FALSE((text.contains(name) && math.contains(other)) || (math.contains(name) && text.contains(other)))
          << name << " depends on " << other;
}

TEST(Layers, AThirdPartyHeaderIsIncludedOnlyInTheFilesThatWrapIt) {
  // The beginning of the header's name → the files; "*" where it is part of our own interfaces.
  const std::map<std::string, std::set<std::string>> wrappers{
      {"cblas", {"kernels/gemm.cpp"}},
      {"mpi", {"dist/mpi_comm.cpp"}},
      {"yaml-cpp/", {"recipe/reader.cpp"}},
      {"CLI/", {"cli/options.cpp"}},
      {"histedit", {"cli/line_editor.cpp"}},
      {"hwloc", {"core/topology.cpp"}},
      {"microhttpd", {"serve/http.cpp"}},
      {"snappy", {"data/codecs.cpp"}},
      {"lz4", {"data/codecs.cpp"}},
      {"brotli/", {"data/codecs.cpp"}},
      {"curl/", {"hub/http_client.cpp"}},
      {"archive", {"data/archive.cpp"}},
      {"spdlog/", {"core/log.cpp"}},
      {"xxhash", {"core/hash.cpp"}},
      {"nlohmann/", {"core/json.h"}},
      {"libdeflate", {"data/codecs.cpp"}},
      {"zlib", {"data/byte_stream.cpp"}},
      {"zstd", {"data/byte_stream.cpp", "data/codecs.cpp"}},
      {"oniguruma", {"tokenizer/text/onig_pattern.cpp"}},
      {"pcre2", {"core/regex.cpp"}},
      {"sentencepiece", {"tokenizer/train.cpp"}},
      {"utf8proc",
       {"constraint/regex_characters.cpp", "jinja/unicode.cpp", "tokenizer/text/unicode.cpp",
        "tokenizer/stages/normal_forms.cpp", "tokenizer/stages/normalizer.cpp"}},
      {"immintrin",
       {"kernels/simd/loops_avx2.cpp", "kernels/simd/loops_avx512.cpp", "kernels/simd/loops_avx512_bf16.cpp",
        "kernels/simd/loops_amx.cpp"}},
      {"microhttpd", {"serve/http.cpp"}},
      {"emmintrin", {"data/row_json.cpp"}},
      {"fmt/", {"*"}}};
  const std::set<std::string> system{
      "arpa/inet.h", "dirent.h", "dlfcn.h", "elf.h",   "fcntl.h",  "fnmatch.h", "netdb.h",    "netinet/tcp.h",
      "poll.h",      "glob.h",   "poll.h",  "sched.h", "signal.h", "strings.h", "langinfo.h", "linux/mempolicy.h",
      "malloc.h",    "unistd.h"};
  for (const Include& i : all_includes()) {
    bool standard = i.header.find_first_of("./") == std::string::npos;
    if (i.ours || standard || i.header.starts_with("sys/") || system.contains(i.header)) continue;
    auto wrapper = wrappers.begin();
    while (wrapper != wrappers.end() && !i.header.starts_with(wrapper->first)) ++wrapper;
    ASSERT_NE(wrapper, wrappers.end()) << i.file << " includes <" << i.header << ">, a package that nobody wraps yet";
    EXPECT_TRUE(wrapper->second.contains("*") || wrapper->second.contains(i.file))
        << i.file << " includes <" << i.header << ">";
  }
}

// The types that a file defines in named namespaces. Relies on the formatting of the sources: what stands at the
// beginning of a line, and the comment that closes a namespace of more than one line.
std::set<std::string> types_of(const fs::path& path) {
  static const std::regex opens(R"(^namespace (\S*) ?\{$)"),
      type(R"(^(?:struct|class|enum class|union) (\w+)(?: final)?(?: : [^;]*)? \{)");
  std::vector<std::pair<std::string, int>> inside;  // names, and the lines at which they open
  std::set<std::string> out;
  std::istringstream lines(text_of(path));
  std::smatch match;
  int number = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    if (std::regex_search(line, match, opens)) inside.emplace_back(match[1], number);
    else if (line.starts_with("}  // namespace") ||
             (line == "}" && !inside.empty() && inside.back().second + 2 == number))
      inside.pop_back();
    else if (std::regex_search(line, match, type) &&
             std::ranges::none_of(inside, [](const auto& space) { return space.first.empty(); })) {
      std::string name;
      for (const auto& [space, line_number] : inside) name += space + "::";
      out.insert(name + match[1].str());
    }
  }
  EXPECT_TRUE(inside.empty()) << path;
  return out;
}

// Two types of one name in one namespace share the symbols of their members, and the linker keeps either.
TEST(Layers, ATypeOfANameIsDefinedOnce) {
  std::map<std::string, std::string> file_of;
  for (auto& entry : fs::recursive_directory_iterator(kFramework)) {
    if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
    for (const std::string& type : types_of(entry.path())) {
      const auto [at, fresh] = file_of.try_emplace(type, entry.path());
      EXPECT_TRUE(fresh) << type << " is defined in " << at->second << " and " << entry.path();
    }
  }
  EXPECT_GT(file_of.size(), 700u);
}

TEST(Layers, RegularExpressionsAreThoseOfCore) {
  for (const Include& i : all_includes()) EXPECT_NE(i.header, "regex") << i.file << ": use core/regex.h";
}

}  // namespace
