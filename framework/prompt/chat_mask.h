// Divides a rendered conversation into trained and untrained pieces, by the marks of a single render:
//
//   <|im_start|>assistant\n<think>\n R \n</think>\n\n C <|im_end|>\n
//                                  ~~~~~~~~~~~~~~~~~~~ ~~~~~~~~~~      trained of a trained turn
//
// The content of a trained turn is trained, including template text between two ranges of it. If there is such text
// (reasoning, tool calls), the template text from the generation prompt to the content is trained, too, and for tool
// calls everything up to the end token, since the model has to generate it. An EOS or end-of-turn token after the turn
// is trained according to train_on_eos and train_on_eot. A {% generation %} block is trained as a whole. Runs in linear
// time.
#pragma once

#include <string>
#include <vector>

#include "jinja/template.h"
#include "prompt/chat_conversation.h"
#include "prompt/strategy.h"

namespace dml {

struct EndTokens {
  std::string eos;
  std::vector<std::string> eot;
  TrainOnEnd train_on_eos = TrainOnEnd::turn, train_on_eot = TrainOnEnd::turn;
};

/// Returns the whole text as one segment. `generation_prompt`: what the template writes before an answer ("" if
/// unknown).
Segment mask(jinja::RenderResult rendered, const Conversation& conversation, const EndTokens& ends,
             const std::string& generation_prompt);

}  // namespace dml
