// The messages of a chat request: checked, and spelled as chat templates know them.
#pragma once

#include <string>

#include "core/json.h"
#include "serve/fields.h"

namespace dml {

/// `messages` of a request, for the template. A `developer` speaks as the system where the template has no such role;
/// what an assistant thought is `reasoning_content`, also where it is sent as `reasoning`. ApiError naming the
/// message's field.
Json read_messages(Fields& fields, const std::string& chat_template);

}  // namespace dml
