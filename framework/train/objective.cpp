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

}  // namespace dml
