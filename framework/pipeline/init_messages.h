// dml init: columns of messages. Finds the keys of a message and how the roles are spelled.
#pragma once

#include <string>
#include <vector>

#include "pipeline/init_data.h"

namespace dml {

/// Takes columns of messages, or of lists of them (also as JSON text), the first of which is that of the conversation;
/// false when the elements are something else. `answered`: another column holds the answers.
bool find_messages(DataFacts& facts, const std::vector<std::string>& names, bool answered = false);

}  // namespace dml
