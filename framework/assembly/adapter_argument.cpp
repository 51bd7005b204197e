#include "assembly/adapter_argument.h"

#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "core/files.h"

namespace dml {

AdapterArgument::AdapterArgument(const std::string& text) : directory(text) {
  const auto equals = text.rfind('=');
  if (equals == text.npos || file_exists(text)) return;
  directory = text.substr(0, equals);
  given_weight = text.substr(equals + 1);
}

double AdapterArgument::weight() const {
  if (!given_weight) return 1;
  char* end = nullptr;
  const double weight = std::strtod(given_weight->c_str(), &end);
  if (given_weight->empty() || *end != 0 || !(std::abs(weight) <= 1e6) || weight == 0)
    throw UserError("--adapter: '{}' in '{}={}' is not a weight; expected a number other than 0", *given_weight,
                    directory, *given_weight);
  return weight;
}

}  // namespace dml
