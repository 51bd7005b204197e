// A small batch whose documents are pairs, or single answers, on the golden model llama_tiny.
#pragma once

#include "model/golden.h"

namespace dml {

/// Documents of the golden batch as groups. Of chosen documents, the first label counts as the prompt's, so that the
/// two are told apart.
struct GroupedBatch {
  explicit GroupedBatch(bool pairs) : golden(golden_path("llama_tiny") + "/batch.json") {
    const GoldenBatch from = golden;
    golden.tokens.clear(), golden.labels.clear(), golden.positions.clear();
    golden.starts.assign(1, 0);
    for (const std::size_t d : {0, 2, 4, 2}) {  // those with labels
      const auto first = from.starts[d], last = from.starts[d + 1];
      golden.tokens.insert(golden.tokens.end(), from.tokens.begin() + first, from.tokens.begin() + last);
      golden.labels.insert(golden.labels.end(), from.labels.begin() + first, from.labels.begin() + last);
      golden.positions.insert(golden.positions.end(), from.positions.begin() + first, from.positions.begin() + last);
      golden.starts.push_back(static_cast<std::int32_t>(golden.tokens.size()));
    }
    const std::size_t documents = golden.starts.size() - 1;
    for (std::size_t d = 0; d < documents; ++d) {
      DocumentGroup g;
      g.role = pairs ? (d % 2 == 0 ? DocumentRole::chosen : DocumentRole::rejected)
                     : (d % 2 == 0 ? DocumentRole::desirable : DocumentRole::undesirable);
      g.group = static_cast<std::int32_t>(pairs ? d / 2 : d);
      g.completion = first_label(d) + (pairs && d % 2 == 0 ? 1 : 0);
      g.reference = -3.5 * static_cast<double>(d + 1);
      groups.push_back(g);
    }
  }
  std::int32_t first_label(std::size_t d) const {
    std::int32_t t = golden.starts[d];
    while (golden.labels[static_cast<std::size_t>(t)] == kIgnore) ++t;
    return t - golden.starts[d];
  }
  PackedBatch view() const {
    PackedBatch batch = golden.view();
    batch.groups = groups;
    return batch;
  }
  // One document, with only the labels of its answer or only those of its prompt.
  std::vector<Token> labels_of(std::size_t document, bool answer) const {
    std::vector<Token> out(golden.labels.size(), kIgnore);
    const std::int32_t seam = golden.starts[document] + groups[document].completion;
    for (std::int32_t t = golden.starts[document]; t < golden.starts[document + 1]; ++t)
      if ((t >= seam) == answer) out[static_cast<std::size_t>(t)] = golden.labels[static_cast<std::size_t>(t)];
    return out;
  }
  GoldenBatch golden;
  std::vector<DocumentGroup> groups;
};

}  // namespace dml
