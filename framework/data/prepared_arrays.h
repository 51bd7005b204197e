// Writer for the arrays of a prepared folder (data/prepared.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/files.h"
#include "data/example.h"
#include "data/tensor_file.h"

namespace dml {

class PreparedArrays {
 public:
  explicit PreparedArrays(const std::string& folder);
  /// Appends an example, with the index of its file and its line there.
  void append(const Example& example, std::int32_t file, std::int64_t line);
  /// Appends a line to dropped.jsonl.
  void drop(const std::string& line) { dropped_.write(line); }
  /// The files written, in no particular order.
  std::vector<WrittenFile> finish();

 private:
  void append_weights(const Example& example);

  std::string folder_;
  TensorWriter<Token> ids_, labels_;
  TensorWriter<std::int64_t> offsets_;
  TensorWriter<std::int32_t> files_;
  TensorWriter<std::int64_t> lines_;
  TensorWriter<std::int32_t> kinds_, splits_;
  TensorWriter<float> numbers_, weights_;
  FileWriter dropped_;
  std::int64_t tokens_ = 0;
  bool weighted_ = false;  // some loss has a weight other than 1, so weights of all tokens are written
};

}  // namespace dml
