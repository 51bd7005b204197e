// A JSON Schema as formulas about one value. Every keyword is an atom about values of one type and true for all other
// types; schemas combine atoms by and, or and not. For each type, a formula reduces to what an incremental reader of
// JSON can check: a language for strings and numbers, and a list of alternative shapes for arrays and objects. `not`,
// `oneOf` and `if` are exact, since every atom has a complement among the atoms. If a formula has very many
// alternatives, some are dropped: then a valid value may be rejected, but an invalid one is never accepted.
//
// Supports drafts 4 to 2020-12 with local references. Unsupported keywords are rejected; annotations (title, default,
// …) and unknown keywords are ignored, as the standard says. `format` is asserted for known formats.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "constraint/language.h"
#include "core/json.h"

namespace dml {

/// The kinds of JSON values; true and false are kinds of their own, so a scalar kind has at most a language.
enum class JsonKind : std::uint8_t { null, no, yes, number, string, array, object };
inline constexpr int kJsonKinds = 7;

class Schema {
 public:
  using Formula = std::uint32_t;
  static constexpr Formula kTrue = 0, kFalse = 1;
  static constexpr std::uint32_t kNoLimit = UINT32_MAX;

  /// `source`: prefix of errors; `longest_number`: most characters of a number. UserError naming the keyword and its
  /// place.
  Schema(const Json& document, std::string source, Languages& languages, std::uint32_t longest_number = kNoLimit);
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;
  ~Schema();

  Formula root() const { return root_; }

  /// An array: items at positions 0, 1 … satisfy `prefix`, those after it `rest`.
  struct Counted {
    Formula item;
    std::uint32_t from, least, most;  // of the items from position `from` on, `least` to `most` satisfy `item`
  };
  struct ArrayShape {
    std::vector<Formula> prefix;
    Formula rest = kTrue;
    std::uint32_t least = 0, most = kNoLimit;
    std::vector<Counted> counted;
    bool unique = false;
  };

  /// A group of members: those whose names are in `names` have values of `value`. Each member belongs to exactly one
  /// group.
  struct Members {
    std::string name;  // the only name, if `single`
    bool single = false, required = false;
    bool listed = false;  // single, and the schema lists it: generated members are in this order
    Languages::Id names = Languages::kNone;
    Formula value = kTrue;
    std::uint32_t wanted = 0;  // bit i: a member of this group may satisfy wanted[i]
  };
  struct ObjectShape {
    std::vector<Members> groups;  // single names first, then languages of names
    std::uint32_t least = 0, most = kNoLimit;
    std::vector<Formula> wanted;  // each must be satisfied by some member (Members::wanted)
  };

  /// The texts that a string or number may have; kAnything or kNone for other scalars.
  Languages::Id scalar(Formula f, JsonKind kind);
  /// The alternative shapes of an array, and of an object.
  const std::vector<std::uint32_t>& arrays(Formula f);
  const std::vector<std::uint32_t>& objects(Formula f);
  const ArrayShape& array(std::uint32_t id) const { return array_shapes_[id]; }
  const ObjectShape& object(std::uint32_t id) const { return object_shapes_[id]; }
  /// Whether some value satisfies the formula.
  bool satisfiable(Formula f);
  /// Answers the questions above for the formulas that a text can come to, nearest first, as far as the time of a
  /// compilation allows. Later questions may take a tenth of the time: a schema cannot stop a thread that reads text.
  void look_ahead();

  Formula both(Formula a, Formula b) { return all_of({a, b}); }
  Formula negation(Formula f);
  /// Values equal to `value` as JSON Schema compares them: 1 equals 1.0, and members have no order.
  Formula equal(const Json& value);

 private:
  struct Atom;
  struct Node;
  struct Compiler;
  struct MemberFacts;
  struct Question;
  using Case = std::vector<std::uint32_t>;  // a conjunction of atoms

  Formula all_of(std::vector<Formula> parts);
  Formula any_of(std::vector<Formula> parts);
  Formula one_of(std::vector<Formula> parts);
  Formula choice(std::vector<Formula> branches, const std::vector<Formula>& held);
  Formula atom(Atom a);
  Formula of_kind(JsonKind kind);
  Formula add(Node n);
  Formula resolved(Formula f);
  Formula one_of_expanded(Formula f);
  Formula complement_of(std::uint32_t atom);
  std::vector<Formula> other_values(const Atom& a);

  Languages::Id scalar_of(Formula f, JsonKind kind, int depth);
  std::vector<Case> cases(Formula f, bool positive, JsonKind kind, int depth);
  std::vector<Case> any_case(const std::vector<std::uint32_t>& parts, bool positive, JsonKind kind, int depth);
  std::vector<Case> every_case(const std::vector<std::uint32_t>& parts, bool positive, JsonKind kind, int depth);
  static void simplify(std::vector<Case>& cases);
  void leave_out(std::vector<Case>& cases, std::size_t most);
  const std::vector<std::uint32_t>& refutations(Formula f);
  std::optional<std::uint32_t> merged_array(const Case& c);

  // Members of objects (schema_members.cpp).
  MemberFacts member_facts(const Case& c);
  bool matches(Languages::Id language, const std::string& name);
  Formula member_value(const MemberFacts& facts, const std::string& name);
  bool contradicts(const Case& c);
  std::vector<Members> other_members(const MemberFacts& facts, const std::vector<std::string>& names);
  std::optional<std::uint32_t> merged_object(const Case& c);
  bool array_possible(const ArrayShape& s);
  bool object_possible(const ObjectShape& s);
  [[noreturn]] void refuse(std::string_view what) const;

  std::string source_;
  Languages& l_;
  std::vector<Node> nodes_;
  std::map<std::pair<int, std::vector<std::uint32_t>>, Formula> node_ids_;
  std::vector<std::unique_ptr<const Atom>> atoms_;
  std::map<JsonKind, Formula> kinds_;
  std::map<std::uint32_t, Formula> complements_;
  std::map<Formula, Formula> expanded_;                        // of one_of
  std::map<Formula, std::vector<std::uint32_t>> refutations_;  // of all_of
  std::unique_ptr<Compiler> compiler_;
  Formula root_ = kTrue;

  std::map<std::pair<Formula, JsonKind>, Languages::Id> scalars_;
  std::map<std::pair<Formula, JsonKind>, std::vector<std::uint32_t>> shapes_;
  std::vector<ArrayShape> array_shapes_;
  std::vector<ObjectShape> object_shapes_;
  std::unordered_map<Formula, bool> satisfiable_;
  std::vector<Formula> in_question_;  // formulas that satisfiable() is working on
  bool assumed_ = false;              // the current answer depends on one of in_question_
  std::size_t work_ = 0;              // number of formulas combined for the current question
  std::uint32_t longest_number_;
  std::size_t most_work_;  // of one question
  int questions_ = 0;      // within each other
  bool left_out_ = false;  // alternatives of some formula were dropped
};

}  // namespace dml
