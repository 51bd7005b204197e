// An objective: what a micro-batch teaches, as a function of the log-probabilities of its documents. The engine is
// cross-entropy with a weight for each document, so any loss of such sums has an exact gradient and no logits are kept.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dml/registry.h"

namespace dml::plugin {

/// Of a document in its group: alone; a pair of answers to one prompt; or one answer that people found good or bad.
enum class Role { alone, chosen, rejected, desirable, undesirable };

struct Document {
  Role role = Role::alone;
  int group = 0;               // documents with the same number, within the micro-batch, belong together
  double log_probability = 0;  // sum of log p over the trained tokens; of preferences, over those of the answer
  double tokens = 0;           // their number
  double reference = 0;        // the same sum under the reference model; 0 where there is none
};

/// The part of the loss that belongs to a document. Sums and denominators of a global batch are added up and divided
/// once, so that a result does not depend on micro-batches and ranks; the loss of a pair belongs to its chosen
/// document.
struct DocumentLoss {
  double loss = 0;
  double denominator = 0;  // what the sum of losses is divided by: 1 for each document or pair, tokens …
  double derivative = 0;   // of the sum of losses by the document's log_probability
};

class Objective {
 public:
  virtual ~Objective() = default;
  /// Names of values that are logged beside the loss; at most 16.
  virtual std::vector<std::string> terms() const { return {}; }
  /// Sets losses[d] of every document d of a micro-batch, and adds to sums[t] what term t has of them; a term is logged
  /// as its sum over the global batch ÷ the sum of denominators. A document of which no token is trained has tokens =
  /// 0.
  virtual void score(std::span<const Document> documents, std::span<DocumentLoss> losses,
                     std::span<double> sums) const = 0;
};

}  // namespace dml::plugin
