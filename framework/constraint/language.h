// Sets of strings over Unicode code points, as extended regular expressions (with intersection and complement), read
// one code point at a time by derivatives (Brzozowski, "Derivatives of regular expressions", 1964). Equal expressions
// are one object with one number, so a derivative is computed once and a language behaves like a lazily built DFA.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dml {

/// Code points first … last.
struct CodePoints {
  char32_t first = 0, last = 0;
  bool operator==(const CodePoints&) const = default;
};

class Languages {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNone = 0;       // no string at all
  static constexpr Id kEmptyText = 1;  // only the empty string
  static constexpr Id kAnything = 2;   // every string
  static constexpr std::uint32_t kUnbounded = UINT32_MAX;
  static constexpr char32_t kLast = 0x10FFFF;

  Languages();

  // Constructors; all of them simplify.
  Id characters(std::vector<CodePoints> set);
  Id character(char32_t c) { return characters({{c, c}}); }
  Id any_character() { return characters({{0, kLast}}); }
  Id literal(std::u32string_view text);
  Id concatenation(Id a, Id b);
  Id concatenation(std::initializer_list<Id> parts);
  Id either(std::vector<Id> parts);
  Id all_of(std::vector<Id> parts);
  Id complement(Id a);
  Id difference(Id a, Id b) { return all_of({a, complement(b)}); }
  /// `a` from `least` to `most` times; kUnbounded has no upper limit.
  Id repetition(Id a, std::uint32_t least, std::uint32_t most);
  Id optional(Id a) { return either({kEmptyText, a}); }
  /// The strings of a prefix tree: each text followed by its own tail. Cheap for thousands of texts.
  Id dictionary(std::vector<std::pair<std::u32string, Id>> entries);
  /// Decimal digits, with at most one '.', of the multiples of divisor / 10^places. Anything else about the number's
  /// syntax (signs, leading zeros) is left to an intersection. 0 < divisor < 10^18.
  Id multiples(std::uint64_t divisor, std::uint32_t places);
  /// The empty string, marked: labels() of a language tells which marks its empty string has. Not below all_of() or
  /// complement().
  Id label(std::uint32_t mark);

  /// A language that refers to itself: define() says what it is. Its derivatives are those of its definition, which
  /// must read a character before it refers to the language again. `nullable`: whether the empty string is in it.
  Id loop(bool nullable);
  void define(Id loop, Id definition) { loops_[nodes_[loop].data[0]] = definition; }

  /// Whether the empty string is in it.
  bool accepts_end(Id a) const { return nodes_[a].nullable; }
  /// The marks that reading has arrived at.
  std::vector<std::uint32_t> labels(Id a) const;

  struct Transition {
    char32_t first, last;
    Id next;  // never empty: some string follows
  };
  /// Where each next code point leads, ascending and disjoint; code points that lead nowhere are left out.
  /// Valid until the next call of a member that is not const.
  std::span<const Transition> transitions(Id a);
  /// The language after one code point; kNone where it leads nowhere.
  Id after(Id a, char32_t c);
  /// Whether some code point of the range may come next.
  bool continues_in(Id a, char32_t first, char32_t last);
  /// Whether no string is in it. UserError when that takes too long to find out.
  bool empty(Id a);
  /// Bytes of all of them, about.
  std::size_t bytes() const { return bytes_; }
  /// Whether multiples() is a part of it.
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
    bool positive;                    // neither intersections nor complements within: never empty but for kNone
    std::vector<std::uint64_t> data;  // ids of the parts, packed ranges, counts …
    bool operator==(const Node&) const = default;
  };
  struct NodeHash {
    std::size_t operator()(const Node& n) const;
  };
  enum class Emptiness : std::uint8_t { unknown, empty, not_empty };

  Id intern(Node node);
  const std::vector<Transition>& raw_transitions(Id a);
  std::vector<Transition> derive(Id a);
  Id multiples_after(const Node& n, unsigned digit_or_point);

  std::vector<Node> nodes_;
  std::unordered_map<Node, Id, NodeHash> ids_;
  std::vector<Id> loops_;                     // definitions
  std::vector<std::vector<Transition>> raw_;  // targets may be empty languages
  std::vector<std::vector<Transition>> live_;
  std::vector<std::uint8_t> raw_known_, live_known_, has_multiples_;
  std::vector<Emptiness> emptiness_;
  std::size_t bytes_ = 0;
};

}  // namespace dml
