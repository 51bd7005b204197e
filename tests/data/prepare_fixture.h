// A recipe's data section over files of a folder of its own, prepared with ByteTokenizer.
#pragma once

#include <fmt/format.h>

#include <string>

#include "data/fixtures.h"
#include "data/prepare.h"
#include "recipe/recipe.h"

namespace dml {

class PrepareTest : public FolderTest {
 protected:
  PrepareTest() {
    data.dataset_prepared_path = path("prepared");
    data.sequence_len = 400;
  }
  void add(const std::string& file, const std::string& type) {
    DatasetEntry entry;
    entry.path = file;
    entry.type.name = type;
    data.datasets.push_back(entry);
  }
  Prepared run(PrepareOptions options = {}) const { return prepare(data, templates, 42, tokenizer, options); }
  /// A row of alpaca data.
  static std::string row(const std::string& question, const std::string& answer) {
    return fmt::format("{{\"instruction\": \"{}\", \"output\": \"{}\"}}\n", question, answer);
  }
  /// Rows of different lengths.
  static std::string rows(int count) {
    std::string out;
    for (int i = 0; i < count; ++i)
      out += row(fmt::format("Say {}", i), std::string(static_cast<std::size_t>(i % 17 + 1), 'x') + std::to_string(i));
    return out;
  }

  DataSection data;
  TemplateSection templates;
  ByteTokenizer tokenizer;
};

}  // namespace dml
