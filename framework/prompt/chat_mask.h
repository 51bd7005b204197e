// A rendered conversation → pieces, trained or read. Labels come from the marks of one render:
//
//   <|im_start|>assistant\n<think>\n R \n</think>\n\n C <|im_end|>\n
//                                  ~~~~~~~~~~~~~~~~~~~ ~~~~~~~~~~      trained of a trained turn
//
// The content of the turn is trained, with the template's text between two ranges of it. When there is such text
// (reasoning, tool calls), the template's own opening of it is trained too, from the generation prompt on, and for tool
// calls all up to the end token: the model has to write these itself. After the turn an eos or eot token is trained as
// train_on_eos and train_on_eot say. {% generation %} widens what is trained to its block. Cost: linear in the text.
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

/// The whole text. `generation_prompt` is what the template writes before an answer ("" when unknown).
Segment mask(jinja::RenderResult rendered, const Conversation& conversation, const EndTokens& ends,
             const std::string& generation_prompt);

}  // namespace dml
