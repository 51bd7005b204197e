// The longer built-in chat templates: those with tools (tool_formats.cpp), those of newer models (newer_formats.cpp),
// and Gemma 4, Command A, Granite and the text forms of vision models in files of those names. chat_formats.cpp
// combines them.
#pragma once

#include <string_view>

namespace dml {

extern const std::string_view kMistralTools;
extern const std::string_view kQwenTools;
extern const std::string_view kQwen25;
extern const std::string_view kQwen3;
extern const std::string_view kDeepseekV3;
extern const std::string_view kFalconH1;

extern const std::string_view kMistralV7;
extern const std::string_view kNemotronH;
extern const std::string_view kLlama4;
extern const std::string_view kExaone4;
extern const std::string_view kJamba;

extern const std::string_view kGemma4Tools;
extern const std::string_view kGemma4Fields;
extern const std::string_view kGemma4;
extern const std::string_view kGemma4UnifiedFields;
extern const std::string_view kGemma4Unified;

extern const std::string_view kCommandAWords;
extern const std::string_view kCommandA;
extern const std::string_view kCommandATools;

extern const std::string_view kGraniteWords;
extern const std::string_view kGranite;
extern const std::string_view kGraniteMoe;

extern const std::string_view kLlamaTools;
extern const std::string_view kLlamaVision;
extern const std::string_view kLlava;
extern const std::string_view kPixtral;
extern const std::string_view kQwenVision;

}  // namespace dml
