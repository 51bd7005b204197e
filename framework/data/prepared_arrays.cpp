#include "data/prepared_arrays.h"

#include <initializer_list>

#include "data/byte_stream.h"

namespace dml {
namespace {

constexpr const char* kDropped = "dropped.jsonl";

std::string path_of(const std::string& folder, const char* name) { return folder + "/" + name + ".safetensors"; }

}  // namespace

PreparedArrays::PreparedArrays(const std::string& folder)
    : folder_(folder),
      ids_(path_of(folder, "ids"), "ids"),
      labels_(path_of(folder, "labels"), "labels"),
      offsets_(path_of(folder, "offsets"), "offsets"),
      files_(path_of(folder, "source_file"), "source_file"),
      lines_(path_of(folder, "source_line"), "source_line"),
      kinds_(path_of(folder, "kinds"), "kinds"),
      splits_(path_of(folder, "splits"), "splits"),
      numbers_(path_of(folder, "numbers"), "numbers"),
      weights_(path_of(folder, "weights"), "weights"),
      dropped_(folder + "/" + kDropped) {
  offsets_.append(std::int64_t{0});
}

void PreparedArrays::append(const Example& example, std::int32_t file, std::int64_t line) {
  append_weights(example);
  tokens_ += example.size();
  ids_.append(std::span(example.ids));
  labels_.append(std::span(example.labels));
  offsets_.append(tokens_);
  files_.append(file);
  lines_.append(line);
  kinds_.append(static_cast<std::int32_t>(example.kind));
  splits_.append(example.split);
}

void PreparedArrays::append_weights(const Example& example) {
  numbers_.append(example.weight);
  numbers_.append(example.margin);
  auto ones = [&](std::int64_t count) {
    const std::vector<float> values(static_cast<std::size_t>(count), 1);
    weights_.append(std::span(values));
  };
  if (!weighted_ && !example.weights.empty()) ones(tokens_);
  weighted_ |= !example.weights.empty();
  if (!example.weights.empty()) weights_.append(std::span(example.weights));
  else if (weighted_) ones(example.size());
}

std::vector<WrittenFile> PreparedArrays::finish() {
  std::vector<WrittenFile> out;
  for (TensorWriterBase* array : std::initializer_list<TensorWriterBase*>{&ids_, &labels_, &offsets_, &files_, &lines_,
                                                                          &kinds_, &splits_, &numbers_, &weights_})
    out.push_back(array->finish());
  const std::size_t size = dropped_.position();
  dropped_.commit();
  out.push_back({kDropped, size, stream_digest(folder_ + "/" + kDropped)});
  return out;
}

}  // namespace dml
