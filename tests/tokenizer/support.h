// Where test data lies, and small folders to load tokenizers from.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/files.h"
#include "core/json.h"
#include "core/utf8.h"
#include "tokenizer/load.h"

namespace dml {

inline const std::string kShared = DML_SOURCE_DIR "/../shared/data";
inline const std::string kGolden = DML_SOURCE_DIR "/tests/golden/tokenizer";

/// A folder with some files in it, gone at the end.
class Folder {
 public:
  explicit Folder(const std::vector<std::pair<std::string, std::string>>& files = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "dml-tokenizer-XXXXXX").string();
    path_ = mkdtemp(name.data());
    for (auto& [file, text] : files) put(file, text);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  void put(const std::string& file, const std::string& text) const {
    make_directories(std::filesystem::path(path_ + "/" + file).parent_path().string());
    write_file(path_ + "/" + file, text);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Every line of a jsonl file.
inline std::vector<Json> read_rows(const std::string& path) {
  std::vector<Json> rows;
  std::string text = read_file(path);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) rows.push_back(parse_json(std::string_view(text).substr(at, end - at), path));
    at = end + 1;
  }
  return rows;
}

inline std::vector<Token> plain_ids(const Tokenizer& t, std::string_view text) { return t.encode(text, {}).ids; }

}  // namespace dml
