#include "tokenizer/sentencepiece_model.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/error.h"
#include "core/protobuf.h"
#include "core/shown.h"
#include "core/utf8.h"
#include "tokenizer/stages/bpe.h"
#include "tokenizer/stages/unigram.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

using Type = SentencePieceModel::Type;
using protobuf::Message;

std::string message_source(std::string_view source) { return fmt::format("{}: not a SentencePiece model", source); }

void read_piece(Message message, SentencePieceModel& out) {
  SentencePieceModel::Piece piece;
  std::size_t id = out.pieces.size();
  while (message.next()) {
    if (message.number == 1) {
      std::string_view text = message.text();
      if (text.size() > SentencePieceModel::kMaxPiece)
        message.fail("piece {} has {} bytes, the limit is {}", id, text.size(), SentencePieceModel::kMaxPiece);
      piece.text = text;
    } else if (message.number == 2) {
      piece.score = message.real();
    } else if (message.number == 3) {
      if (message.integer() < 1 || message.integer() > 6)
        message.fail("piece {} has type {}, known are 1 to 6", id, message.integer());
      piece.type = static_cast<Type>(message.integer());
    }
  }
  if (piece.text.empty()) message.fail("piece {} is empty", id);
  if (find_invalid_utf8(piece.text) != std::string::npos) message.fail("piece {} is not valid UTF-8", id);
  if (!std::isfinite(piece.score)) message.fail("the score of piece {} is not a finite number", id);
  out.pieces.push_back(std::move(piece));
}

// Counts the pieces before memory is allocated.
std::size_t count_pieces(std::string_view bytes, std::string_view source) {
  std::size_t count = 0;
  Message message(bytes, message_source(source));
  while (message.next())
    if (message.number == 1 && static_cast<std::int64_t>(++count) > kMaxVocabulary)
      message.fail("more than {} pieces", kMaxVocabulary);
  return count;
}

struct NamedIds {
  std::int32_t unk = -1, bos = -1, eos = -1, pad = -1;
};

void read_trainer(Message message, SentencePieceModel& out, NamedIds& ids) {
  auto id = [&] { return static_cast<std::int32_t>(message.integer()); };
  while (message.next()) switch (message.number) {
      case 3:
        if (message.integer() != 1 && message.integer() != 2)
          message.fail("model type {}; unigram (1) and bpe (2) are supported", message.integer());
        out.bpe = message.integer() == 2;
        break;
      case 24:
        out.whitespace_as_suffix = message.integer() != 0;
        break;
      case 35:
        out.byte_fallback = message.integer() != 0;
        break;
      case 40:
        ids.unk = id();
        break;
      case 41:
        ids.bos = id();
        break;
      case 42:
        ids.eos = id();
        break;
      case 43:
        ids.pad = id();
        break;
      case 46:
        out.bos_piece = message.text();
        break;
      case 47:
        out.eos_piece = message.text();
        break;
      case 48:
        out.pad_piece = message.text();
        break;
      default:
        break;
    }
}

void read_normalizer(Message message, SentencePieceModel& out) {
  while (message.next()) switch (message.number) {
      case 2:
        out.charsmap = message.text();
        break;
      case 3:
        out.add_dummy_prefix = message.integer() != 0;
        break;
      case 4:
        out.remove_extra_whitespaces = message.integer() != 0;
        break;
      case 5:
        out.escape_whitespaces = message.integer() != 0;
        break;
      default:
        break;
    }
}

// Adds every split of a piece into two symbols as a merge, ranked by the piece's score; equal scores share a rank.
void add_merges(Bpe& bpe, const SentencePieceModel& model, std::string_view source) {
  auto merges = [&](const SentencePieceModel::Piece& p) { return p.type == Type::normal || p.type == Type::unused; };
  std::vector<float> scores;
  std::size_t work = 0;
  for (auto& p : model.pieces)
    if (merges(p)) {
      scores.push_back(p.score);
      work += p.text.size() * p.text.size();
    }
  if (work > std::size_t{1} << 31) throw UserError("{}: its pieces are far too long for a BPE model", source);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  auto symbol = [&](std::string_view s) -> Token {
    if (s.size() == char_length(s[0])) return bpe.symbol(s);
    Token id = bpe.vocabulary.find(s);
    return id >= 0 && merges(model.pieces[id]) ? id : -1;
  };
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    auto& p = model.pieces[id];
    if (p.type == Type::user_defined) bpe.add_unmergeable(p.text, static_cast<Token>(id));
    if (!merges(p)) continue;
    auto rank = static_cast<std::uint32_t>(std::lower_bound(scores.begin(), scores.end(), p.score, std::greater<>()) -
                                           scores.begin());
    std::string_view text = p.text;
    for (std::size_t cut = char_length(text[0]); cut < text.size(); cut += char_length(text[cut])) {
      Token left = symbol(text.substr(0, cut)), right = symbol(text.substr(cut));
      if (left >= 0 && right >= 0) bpe.add_merge(left, right, rank, static_cast<Token>(id));
    }
    if (p.type == Type::unused) bpe.mark_unused(static_cast<Token>(id));
  }
}

std::unique_ptr<Model> make_model(const SentencePieceModel& model, std::string_view source) {
  std::unique_ptr<Bpe> bpe = model.bpe ? std::make_unique<Bpe>() : nullptr;
  std::unique_ptr<Unigram> unigram = model.bpe ? nullptr : std::make_unique<Unigram>();
  Vocabulary& vocabulary = bpe ? bpe->vocabulary : unigram->vocabulary;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    if (!vocabulary.add(model.pieces[id].text, static_cast<Token>(id)))
      throw UserError("{}: piece {} '{}' occurs twice", source, id, shown(model.pieces[id].text, 60));
  if (bpe) {
    add_merges(*bpe, model, source);
    Bpe::Options options;
    options.sentencepiece = true;
    options.byte_fallback = model.byte_fallback;
    options.unk = model.unk;
    bpe->prepare(options);
    return bpe;
  }
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    Type type = model.pieces[id].type;
    if (type == Type::normal || type == Type::user_defined)
      unigram->add_piece(static_cast<Token>(id), model.pieces[id].score, type == Type::user_defined);
  }
  unigram->prepare({model.unk, model.byte_fallback, true});
  return unigram;
}

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::string_view bytes, std::string_view source) {
  SentencePieceModel out;
  out.pieces.reserve(count_pieces(bytes, source));
  NamedIds ids;
  Message message(bytes, message_source(source));
  while (message.next()) switch (message.number) {
      case 1:
        read_piece(message.message(), out);
        break;
      case 2:
        read_trainer(message.message(), out, ids);
        break;
      case 3:
        read_normalizer(message.message(), out);
        break;
      default:
        break;
    }
  if (out.pieces.empty()) throw UserError("{}: not a SentencePiece model: it has no pieces", source);
  std::vector<bool> byte_seen(256);
  for (std::size_t id = 0; id < out.pieces.size(); ++id) {
    auto& p = out.pieces[id];
    if (p.type == Type::unknown) {
      if (out.unk >= 0) throw UserError("{}: pieces {} and {} are both the unknown piece", source, out.unk, id);
      out.unk = static_cast<Token>(id);
    }
    if (p.type == Type::byte) {
      unsigned byte = 0;
      int end = 0;
      if (p.text.size() != 6 || std::sscanf(p.text.c_str(), "<0x%2X>%n", &byte, &end) != 1 || end != 6)
        throw UserError("{}: piece {} '{}' should spell a byte, like <0x0A>", source, id, shown(p.text, 60));
      byte_seen[byte] = true;
    }
  }
  if (out.unk < 0) throw UserError("{}: it has no unknown piece", source);
  if (out.byte_fallback && std::find(byte_seen.begin(), byte_seen.end(), false) != byte_seen.end())
    throw UserError("{}: byte fallback without a piece for each of the 256 bytes", source);
  auto n = static_cast<std::int64_t>(out.pieces.size());
  for (auto [name, id] : {std::pair{"unk", ids.unk}, {"bos", ids.bos}, {"eos", ids.eos}, {"pad", ids.pad}})
    if (id < -1 || id >= n) throw UserError("{}: {}_id is {}, there are {} pieces", source, name, id, n);
  if (ids.unk >= 0 && ids.unk != out.unk)
    throw UserError("{}: unk_id is {}, the unknown piece is {}", source, ids.unk, out.unk);
  return out;
}

std::unique_ptr<Pipeline> make_sentencepiece(const SentencePieceModel& model, bool legacy, std::string_view source) {
  auto out = std::make_unique<Pipeline>();
  SentencePieceNormalizerOptions normalizer;
  normalizer.charsmap = Charsmap(model.charsmap, source);
  normalizer.add_dummy_prefix = model.add_dummy_prefix;
  normalizer.remove_extra_whitespaces = model.remove_extra_whitespaces;
  normalizer.escape_whitespaces = model.escape_whitespaces;
  normalizer.whitespace_as_suffix = model.whitespace_as_suffix;
  normalizer.prefix_only_first = !legacy;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    auto& p = model.pieces[id];
    if (p.type == Type::user_defined) normalizer.user_defined.add(p.text, static_cast<std::int32_t>(id));
    if (p.type != Type::control && p.type != Type::unknown) continue;
    AddedToken token;
    token.id = static_cast<Token>(id);
    token.text = p.text;
    token.special = true;
    out->added.add(token, source);
    if (p.type == Type::control && p.text == model.bos_piece) out->bos = token.id;
    if (p.type == Type::control && p.text == model.eos_piece) out->eos = token.id;
    if (p.type == Type::control && p.text == model.pad_piece) out->pad = token.id;
  }
  out->unk = model.unk;
  out->normalizer = make_sentencepiece_normalizer(std::move(normalizer));
  out->model = make_model(model, source);
  out->decoder = make_sentencepiece_decoder(model.add_dummy_prefix);
  return out;
}

}  // namespace dml
