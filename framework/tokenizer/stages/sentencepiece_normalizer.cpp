// SentencePiece's own normalization: characters through the precompiled map (longest key first), runs of spaces, the
// leading space, and spaces as U+2581.
#include "tokenizer/stages/normalizer.h"
#include "tokenizer/text/unicode.h"
#include "tokenizer/text/vocabulary.h"

namespace dml {
namespace {

class SentencePieceNormalizer : public Normalizer {
 public:
  explicit SentencePieceNormalizer(SentencePieceNormalizerOptions options) : options_(std::move(options)) {}

  void apply(AlignedText& text) const override {
    std::string_view s = text.bytes();
    std::uint32_t i = 0;
    const std::string_view space = options_.escape_whitespaces ? kSpaceMark : std::string_view(" ");
    if (options_.remove_extra_whitespaces)
      while (i < s.size()) {
        auto [piece, length] = next(s.substr(i));
        if (piece != " ") break;
        i += length;
      }
    AlignedText::Rewriter out(text);
    bool prefix = options_.add_dummy_prefix && i < s.size() && (!options_.prefix_only_first || text.origin(0) == 0);
    if (prefix && !options_.whitespace_as_suffix) out.put(space, i);
    bool after_space = options_.remove_extra_whitespaces;
    while (i < s.size()) {
      auto [piece, length] = next(s.substr(i));
      while (after_space && piece.starts_with(' ')) piece.remove_prefix(1);
      if (!piece.empty()) {
        for (std::size_t k = 0; k < piece.size();) {
          std::size_t end = std::min(piece.find(' ', k), piece.size());
          if (end > k) out.put(piece.substr(k, end - k), i);
          if (end < piece.size()) out.put(space, i);
          k = end + 1;
        }
        after_space = piece.ends_with(' ');
      }
      i += length;
      if (!options_.remove_extra_whitespaces) after_space = false;
    }
    if (options_.remove_extra_whitespaces)
      while (out.bytes().ends_with(space)) out.truncate(out.size() - space.size());
    if (prefix && options_.whitespace_as_suffix) out.put(space, i);
    out.finish();
  }

 private:
  struct Piece {
    std::string_view text;
    std::uint32_t length;
  };
  Piece next(std::string_view s) const {
    if (options_.user_defined.starts_key(static_cast<unsigned char>(s[0]))) {
      std::size_t longest = 0;
      options_.user_defined.prefixes(s, [&](std::size_t n, std::int32_t) { longest = n; });
      if (longest > 0) return {s.substr(0, longest), static_cast<std::uint32_t>(longest)};
    }
    if (auto match = options_.charsmap.find(s, false); match.length > 0)
      return {match.replacement, static_cast<std::uint32_t>(match.length)};
    std::uint32_t n = char_length(s[0]);
    return {s.substr(0, n), n};
  }
  SentencePieceNormalizerOptions options_;
};

}  // namespace

std::unique_ptr<Normalizer> make_sentencepiece_normalizer(SentencePieceNormalizerOptions options) {
  return std::make_unique<SentencePieceNormalizer>(std::move(options));
}

}  // namespace dml
