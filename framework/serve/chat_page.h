// The chat page: one self-contained HTML file (serve/chat_page.html), embedded at build time.
#pragma once

#include <string_view>

namespace dml {

std::string_view chat_page();

}  // namespace dml
