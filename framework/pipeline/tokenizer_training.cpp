#include "pipeline/tokenizer_training.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "data/records.h"
#include "data/sources.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

namespace fs = std::filesystem;

std::vector<SourceFile> sources_of(const std::string& input) {
  if (fs::is_directory(input)) return find_all_sources(input);
  DatasetEntry entry;
  entry.path = input;
  return find_sources(entry);
}

// Collects all texts of a row.
void collect(const Json& value, const std::vector<std::string>& fields, bool wanted, std::string& out) {
  static const std::vector<std::string> kNames{"role", "from", "id", "type", "source", "url"};
  if (value.is_string()) {
    if (!wanted) return;
    if (!out.empty()) out += '\n';
    out += value.get_ref<const std::string&>();
  } else if (value.is_object()) {
    for (auto& [key, member] : value.items())
      collect(member, fields,
              fields.empty() ? std::ranges::find(kNames, key) == kNames.end()
                             : wanted || std::ranges::find(fields, key) != fields.end(),
              out);
  } else if (value.is_array()) {
    for (auto& element : value) collect(element, fields, wanted, out);
  }
}

class Texts {
 public:
  Texts(const std::vector<SourceFile>& files, const std::vector<std::string>& fields)
      : files_(files), fields_(fields) {}

  bool next(std::string& text) {
    while (true) {
      if (!reader_) {
        if (file_ == files_.size()) return false;
        reader_ = std::make_unique<RowReader>(files_[file_]);
      }
      if (!reader_->next(row_)) {
        reader_.reset();
        ++file_;
        continue;
      }
      reader_->parse(row_, record_);
      text.clear();
      const RowForm form = files_[file_].form;
      if (form == RowForm::text || form == RowForm::document) {
        text = record_["text"].get_ref<const std::string&>();
      } else {
        if (!fields_.empty() && std::ranges::none_of(fields_, [&](auto& f) { return record_.contains(f); }))
          missing(fields_[0]);
        collect(record_, fields_, false, text);
      }
      if (!text.empty()) return true;
    }
  }

 private:
  [[noreturn]] void missing(const std::string& field) const {
    std::vector<std::string> names;
    for (auto& [name, value] : record_.items()) names.push_back(name);
    throw UserError("{}: no field '{}'{}", reader_->place(row_), field, did_you_mean(field, names));
  }

  const std::vector<SourceFile>& files_;
  const std::vector<std::string>& fields_;
  std::size_t file_ = 0;
  std::unique_ptr<RowReader> reader_;
  RawRow row_;
  Json record_;
};

void check_output(const TokenizerRequest& request) {
  std::error_code error;
  if (request.output.empty()) throw UserError("tokenizer train needs --output DIR");
  if (!fs::exists(request.output, error)) return;
  if (!fs::is_directory(request.output, error)) throw UserError("{}: is a file", request.output);
  if (fs::is_empty(request.output, error)) return;
  if (!request.force)
    throw UserError("{}: the directory is not empty; choose another, or replace its tokenizer with --force",
                    request.output);
  // --force replaces a tokenizer, but no other directory of that name.
  for (auto& entry : fs::directory_iterator(request.output))
    if (const std::string name = entry.path().filename().string();
        name != "tokenizer.model" && name != "tokenizer.json" && name != "tokenizer_config.json" &&
        name != "special_tokens_map.json" && name != "chat_template.jinja")
      throw UserError("{}: holds more than a tokenizer ('{}'); choose another directory", request.output, name);
}

}  // namespace

TrainedTokenizer make_tokenizer(const TokenizerRequest& request) {
  check_output(request);
  if (request.inputs.empty()) throw UserError("tokenizer train needs at least one file or folder of text");
  std::vector<SourceFile> files;
  for (auto& input : request.inputs) {
    auto found = sources_of(input);
    files.insert(files.end(), found.begin(), found.end());
  }
  TrainedTokenizer out = train_tokenizer(
      request.training,
      [&]() -> NextText {
        return
            [texts = std::make_shared<Texts>(files, request.fields)](std::string& text) { return texts->next(text); };
      },
      request.sample_bytes);
  DirectoryWriter folder(request.output, request.force);
  write_tokenizer(request.training, out.model, folder.path());
  if (!folder.commit())
    throw UserError("{}: another process wrote into this directory at the same time", request.output);
  if (const std::string& rule = request.training.normalization; rule != "none")
    log_warning(
        "--normalization {}: tokenizer.json can lose combining marks and joiners, which tokenizer.model keeps; the "
        "token ids of texts with them may differ between the two files",
        rule);
  return out;
}

}  // namespace dml
