// A text from a file or a client, as a message shows it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dml {

/// The first `most` bytes, up to a whole character, on one line; "…" stands for the rest. Controls and bytes that are
/// not UTF-8 are escaped.
std::string shown(std::string_view text, std::size_t most = 80);

}  // namespace dml
