// The values of an optimizer's arguments, from a recipe's settings.
#pragma once

#include <vector>

#include "optim/optimizer.h"

namespace dml {

/// Every argument is read from optim_args, else from its setting (OptimizerArgument::from), else it has its default.
/// `betas: [b1, b2]` and `eps: [e1, e2]` set several at once, and `epsilon` is `eps`, where the optimizer has no
/// argument of that name. UserError as for Arguments.
Arguments read_arguments(const OptimizerSettings& settings, const std::vector<OptimizerArgument>& known);

/// The arguments weight_decay, beta1, beta2 and eps with these defaults.
std::vector<OptimizerArgument> adam_arguments(double beta1 = 0.9, double beta2 = 0.999, double epsilon = 1e-8);
OptimizerArgument weight_decay_argument();
/// The concatenation of both lists.
std::vector<OptimizerArgument> joined(std::vector<OptimizerArgument> first,
                                      const std::vector<OptimizerArgument>& second);

}  // namespace dml
