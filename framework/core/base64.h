// Base64 (RFC 4648), with '=' at the end.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dml {

std::string to_base64(std::string_view bytes);
/// Unset when a character is not one of the 64. The '=' may be missing.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace dml
