// Texts of the built-in chat templates that are long: those that know tools and tool calls (tool_formats.cpp), and
// those of newer models (newer_formats.cpp), Gemma 4, Command A, Granite and the text forms of models that see, in
// files of that name. chat_formats.cpp puts them together.
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
