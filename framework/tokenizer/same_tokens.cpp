#include "tokenizer/same_tokens.h"

namespace dml {
namespace {

// Words, numbers, spaces, punctuation, case, accents, scripts and an emoji: what normalizers and splitters differ in.
constexpr std::string_view kProbe =
    " Once upon a time,  there WAS\n\n\ta café's “naïve” token_izer: 3.14159 and 20000 — don't\r\n"
    "Ｆｕｌｌ width, ﬁ, e\xcc\x81, Привет мир, 你好世界, こんにちは, 한국어, שלום\n"
    "    return x[i] += 1;  👩‍💻!?\n";

bool is_padding_alone(const Tokenizer& tokenizer, Token id) {
  return tokenizer.pad == id && tokenizer.eos != id && tokenizer.bos != id && tokenizer.unk != id;
}

}  // namespace

bool has_same_tokens(const Tokenizer& one, const Tokenizer& other) {
  if (one.digest == other.digest) return true;
  if (one.bos != other.bos || one.eos != other.eos) return false;
  for (Token id = 0; id < one.size(); ++id) {
    if (id >= other.size()) {
      if (!is_padding_alone(one, id)) return false;
    } else if (one.is_special(id) != other.is_special(id) || one.piece(id) != other.piece(id)) {
      return false;
    }
  }
  for (const bool special : {false, true}) {
    const EncodeOptions how{.add_special = special, .parse_special = false};
    if (one.encode(kProbe, how).ids != other.encode(kProbe, how).ids) return false;
  }
  return true;
}

}  // namespace dml
