// Checks the messages of a chat request and converts them to the form of chat templates.
#pragma once

#include <string>

#include "core/json.h"
#include "serve/fields.h"

namespace dml {

/// The `messages` of a request in the form that chat templates expect. The role `developer` becomes `system` if the
/// template does not use it; an assistant's reasoning is `reasoning_content`, also if sent as `reasoning`. ApiError
/// naming the message's field.
Json read_messages(Fields& fields, const std::string& chat_template);

}  // namespace dml
