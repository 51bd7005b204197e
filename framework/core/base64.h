// Base64 (RFC 4648) with '=' padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dml {

std::string to_base64(std::string_view bytes);
/// Decodes; the padding may be missing. Unset if a character is not one of the 64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace dml
