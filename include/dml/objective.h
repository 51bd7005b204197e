// An objective: the loss of a micro-batch as a function of the log-probabilities of its documents. dml computes its
// gradient as that of a cross-entropy with a weight for each document, which is exact for any such loss, and stores no
// logits.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dml/registry.h"

namespace dml::plugin {

/// The role of a document in its group: none; one of a pair of answers to a prompt; or a single answer rated good or
/// bad (KTO).
enum class Role { alone, chosen, rejected, desirable, undesirable };

struct Document {
  Role role = Role::alone;
  int group = 0;               // documents with the same number, within the micro-batch, belong together
  double log_probability = 0;  // sum of log p over the trained tokens; with preference data, over those of the answer
  double tokens = 0;           // the number of these tokens
  double reference = 0;        // log_probability under the reference model; 0 without one
};

/// A document's share of the loss. The loss of a global batch is the sum of all `loss` divided once by the sum of all
/// `denominator`, so it depends on neither micro-batches nor ranks. The loss of a pair belongs to its chosen document.
struct DocumentLoss {
  double loss = 0;
  double denominator = 0;  // for example 1 per document or pair, or its tokens
  double derivative = 0;   // of the sum of losses with respect to log_probability
};

class Objective {
 public:
  virtual ~Objective() = default;
  /// Names of the terms that are logged besides the loss; at most 16.
  virtual std::vector<std::string> terms() const { return {}; }
  /// Sets losses[d] for every document d of a micro-batch, and adds the micro-batch's sum of term t to sums[t]. A term
  /// is logged as its sum over the global batch ÷ the sum of denominators. A document without trained tokens has tokens
  /// = 0.
  virtual void score(std::span<const Document> documents, std::span<DocumentLoss> losses,
                     std::span<double> sums) const = 0;
};

}  // namespace dml::plugin
