#include "train/objective.h"

namespace dml {

LossSums& LossSums::operator+=(const LossSums& other) {
  loss += other.loss;
  denominator += other.denominator;
  for (std::size_t i = 0; i < kMostTerms; ++i) {
    terms[i].sum += other.terms[i].sum;
    terms[i].weight += other.terms[i].weight;
  }
  return *this;
}

std::vector<NamedValue> named_terms(const Objective& objective, const LossSums& sums) {
  std::vector<NamedValue> out;
  for (std::size_t i = 0; i < objective.terms().size(); ++i) {
    const LossSums::Term& term = sums.terms[i];
    out.push_back({objective.terms()[i], term.weight != 0 ? term.sum / term.weight : 0});
  }
  return out;
}

}  // namespace dml
