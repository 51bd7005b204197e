// Regular languages over Unicode code points, as extended regular expressions (with intersection and complement), read
// one code point at a time by derivatives (Brzozowski, "Derivatives of regular expressions", 1964). Expressions are
// interned, so a derivative is computed once and a language behaves like a lazily built DFA.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "constraint/work_limit.h"

namespace dml {

/// Code points first … last.
struct CodePoints {
  char32_t first = 0, last = 0;
  bool operator==(const CodePoints&) const = default;
};
/// The same code points as ascending ranges with gaps between them.
std::vector<CodePoints> united(std::vector<CodePoints> set);

class Languages {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNone = 0;       // no string at all
  static constexpr Id kEmptyText = 1;  // only the empty string
  static constexpr Id kAnything = 2;   // every string
  static constexpr std::uint32_t kUnbounded = UINT32_MAX;
  static constexpr char32_t kLast = 0x10FFFF;

  /// `work`: the limit that new expressions and transitions count against.
  explicit Languages(WorkLimit& work);

  // Constructors; all of them normalize the expression.
  Id characters(std::vector<CodePoints> set);
  Id character(char32_t c) { return characters({{c, c}}); }
  Id any_character() { return characters({{0, kLast}}); }
  /// The text, followed by `tail`.
  Id literal(std::u32string_view text, Id tail = kEmptyText);
  Id concatenation(Id a, Id b);
  Id concatenation(std::initializer_list<Id> parts);
  Id either(std::vector<Id> parts);
  Id all_of(std::vector<Id> parts);
  Id complement(Id a);
  Id difference(Id a, Id b) { return all_of({a, complement(b)}); }
  /// `a` from `least` to `most` times; kUnbounded has no upper limit.
  Id repetition(Id a, std::uint32_t least, std::uint32_t most);
  Id optional(Id a) { return either({kEmptyText, a}); }
  /// A prefix tree: each text followed by its own tail. Efficient for thousands of texts.
  Id dictionary(std::vector<std::pair<std::u32string, Id>> entries);
  /// The decimals (digits with at most one '.') that are multiples of divisor / 10^places. Other syntax of numbers
  /// (signs, leading zeros) is left to an intersection. 0 < divisor < 10^18.
  Id multiples(std::uint64_t divisor, std::uint32_t places);
  /// The empty string with a mark: labels() returns the marks of the empty strings in a language. Not allowed inside
  /// all_of() and complement().
  Id label(std::uint32_t mark);

  /// A language that refers to itself: define() says what it is. Its derivatives are those of its definition, which
  /// must read a character before it refers to the language again. `nullable`: whether the empty string is in it.
  Id loop(bool nullable);
  void define(Id loop, Id definition) { loops_[nodes_[loop].data[0]] = definition; }

  /// Whether the language contains the empty string.
  bool accepts_end(Id a) const { return nodes_[a].nullable; }
  /// The marks of the empty strings in the language.
  std::vector<std::uint32_t> labels(Id a) const;

  struct Transition {
    char32_t first, last;
    Id next;  // never an empty language
  };
  /// The transitions, sorted and disjoint; code points that lead to an empty language are omitted. Valid until the next
  /// call of a non-const member.
  std::span<const Transition> transitions(Id a);
  /// All strings of the language, if they are at most `most` and not very long.
  std::optional<std::vector<std::u32string>> texts(Id a, std::size_t most);
  /// The derivative by one code point; kNone if no string continues with it.
  Id after(Id a, char32_t c);
  /// Whether some string continues with a code point of the range.
  bool continues_in(Id a, char32_t first, char32_t last);
  /// Whether the language is empty. UserError when the search takes too long.
  bool empty(Id a);
  WorkLimit& work() { return work_; }
  /// Approximate bytes of all expressions.
  std::size_t bytes() const { return bytes_; }
  /// Whether the expression contains multiples().
  bool has_multiples(Id a) const { return has_multiples_[a]; }

 private:
  enum class Kind : std::uint8_t {
    none,
    empty_text,
    characters,
    concatenation,
    either,
    all_of,
    complement,
    repetition,
    multiples,
    label,
    loop
  };
  struct Node {
    Kind kind;
    bool nullable;
    bool positive;                    // contains no intersection or complement, so only kNone is empty
    std::vector<std::uint64_t> data;  // ids of the parts, packed ranges, counts …
    bool operator==(const Node&) const = default;
  };
  struct NodeHash {
    std::size_t operator()(const Node& n) const;
  };
  enum class Emptiness : std::uint8_t { unknown, empty, not_empty };

  Id intern(Node node);
  const std::vector<Transition>& raw_transitions(Id a);
  std::vector<Id> derived_from(Id a) const;
  std::vector<Transition> derive(Id a);
  Id multiples_after(const Node& n, unsigned digit_or_point);

  WorkLimit& work_;
  std::vector<Node> nodes_;
  std::unordered_map<Node, Id, NodeHash> ids_;
  std::vector<Id> loops_;                     // definitions
  std::vector<std::vector<Transition>> raw_;  // targets may be empty languages
  std::vector<std::vector<Transition>> live_;
  std::vector<std::uint8_t> raw_known_, live_known_, has_multiples_;
  std::vector<Emptiness> emptiness_;
  std::size_t bytes_ = 0, parts_ = 0;
};

}  // namespace dml
