#include "prompt/loss_weight.h"

#include "core/error.h"
#include "core/shown.h"

namespace dml {

double loss_weight(const Json& value, const std::string& field) {
  constexpr double kMax = 1e6;
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  const double weight = value.is_number() ? value.get<double>() : -1;
  if (!(weight >= 0 && weight <= kMax))
    throw UserError("'{}' must be a weight from 0 to {}, is {}", field, kMax, shown(dump(value), 60));
  return weight;
}

}  // namespace dml
