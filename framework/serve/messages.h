// The messages of a chat request: checked, and spelled as chat templates know them.
#pragma once

#include <string>

#include "core/json.h"
#include "serve/fields.h"

namespace dml {

/// The `messages` of a request in the form that chat templates expect. The role `developer` becomes `system` where the
/// template does not know it; reasoning of an assistant is `reasoning_content`, also where it is sent as `reasoning`.
/// ApiError naming the message's field.
Json read_messages(Fields& fields, const std::string& chat_template);

}  // namespace dml
