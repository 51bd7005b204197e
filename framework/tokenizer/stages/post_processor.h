// The ids that a tokenizer adds before and after a text (BOS, EOS …).
#pragma once

#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/packed_batch.h"

namespace dml {

struct PostProcessor {
  std::vector<Token> front, back;
};

/// From the "post_processor" of a tokenizer.json. Throws UserError if an id is not below `vocabulary_size`.
PostProcessor make_post_processor(const Json& spec, Token vocabulary_size, std::string_view where);

}  // namespace dml
