// SentencePiece's tokenizer.model: a protobuf (ModelProto) read by a small bounded decoder of our own, and the
// tokenizer it becomes. No byte of the file reaches a library. Ids are those of libsentencepiece (tests compare them).
//
// Format: sentencepiece_model.proto, fields 1 pieces {1 piece, 2 score, 3 type}, 2 trainer_spec, 3 normalizer_spec.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/pipeline.h"

namespace dml {

struct SentencePieceModel {
  enum class Type { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::normal;
  };
  static constexpr std::size_t kMaxFile = std::size_t{32} << 20, kMaxPiece = 4 << 10;

  std::vector<Piece> pieces;
  bool bpe = false;  // else unigram
  bool byte_fallback = false, whitespace_as_suffix = false;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  std::string bos_piece = "<s>", eos_piece = "</s>", pad_piece = "<pad>";
  std::string charsmap;
  Token unk = -1;
};

/// UserError with `source` and the byte or piece where the file is wrong.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, std::string_view source);

/// `legacy`: Hugging Face's flag: a space before every stretch of text, not only of the first. Control pieces are
/// special added tokens; bos, eos, unk and pad are set where the model has them.
std::unique_ptr<Pipeline> make_sentencepiece(const SentencePieceModel& model, bool legacy, std::string_view source);

}  // namespace dml
