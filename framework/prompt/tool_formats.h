// Texts of the built-in chat templates that know tools and tool calls, the long ones; chat_formats.cpp puts them together.
#pragma once

#include <string_view>

namespace dml {

extern const std::string_view kMistralTools;
extern const std::string_view kQwenTools;
extern const std::string_view kQwen25;
extern const std::string_view kQwen3;
extern const std::string_view kDeepseekV3;
extern const std::string_view kFalconH1;

}  // namespace dml
