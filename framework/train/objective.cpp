#include "train/objective.h"

namespace dml {

LossSums& LossSums::operator+=(const LossSums& other) {
  loss += other.loss;
  denominator += other.denominator;
  for (std::size_t i = 0; i < kMaxTerms; ++i) {
    terms[i].sum += other.terms[i].sum;
    terms[i].weight += other.terms[i].weight;
  }
  return *this;
}

std::vector<NamedValue> named_terms(std::span<const Metric> terms, const LossSums& sums, const std::string& prefix) {
  std::vector<NamedValue> out;
  for (std::size_t i = 0; i < terms.size(); ++i)
    if (const LossSums::Term& term = sums.terms[i]; term.weight > 0)
      out.push_back({prefix + terms[i].name, term.sum / term.weight});
  return out;
}

}  // namespace dml
