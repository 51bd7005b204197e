// The chat page: one HTML file without any other, embedded when the program is built (serve/chat_page.html).
#pragma once

#include <string_view>

namespace dml {

std::string_view chat_page();

}  // namespace dml
