// SentencePiece's tokenizer.model: a protobuf (ModelProto), read by a small bounded decoder without a library, and its
// tokenizer. Ids are those of libsentencepiece (tests compare them).
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

/// Throws UserError with `source` and the byte or piece at which the file is invalid.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, std::string_view source);

/// `legacy`: Hugging Face's flag: adds a space before every part of a text between special tokens, not only before the
/// first. Control pieces become special added tokens; bos, eos, unk and pad are set if the model has them.
std::unique_ptr<Pipeline> make_sentencepiece(const SentencePieceModel& model, bool legacy, std::string_view source);

}  // namespace dml
