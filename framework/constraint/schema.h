// A JSON Schema as formulas about one value. Every keyword is an atom about values of one type, and true of all other
// types; schemas combine atoms by and, or and not. For each type a formula comes down to what a reader of JSON text can
// follow: a language for strings and numbers, and a list of shapes, one of which an array or object must have. `not`,
// `oneOf` and `if` are exact, since every atom has a complement among the atoms. Of a formula with very many
// alternatives some are left out: a value may be rejected then that the schema allows, but none is accepted that it
// does not.
//
// Drafts 4 to 2020-12, with local references. What is not supported is refused by keyword; keywords that assert nothing
// (title, default, …) and unknown ones are left out, as the standard says. `format` is an assertion for the formats it
// names.
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

/// JSON's kinds of values; true and false apart, so that each is a yes or no.
enum class JsonKind : std::uint8_t { null, no, yes, number, string, array, object };
inline constexpr int kJsonKinds = 7;

class Schema {
 public:
  using Formula = std::uint32_t;
  static constexpr Formula kTrue = 0, kFalse = 1;
  static constexpr std::uint32_t kNoLimit = UINT32_MAX;

  /// `source` is named in errors. UserError names the keyword and its place.
  Schema(const Json& document, std::string source, Languages& languages);
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;
  ~Schema();

  Formula root() const { return root_; }

  /// Items at positions 0, 1 … are of `prefix`, those after it of `rest`.
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

  /// The members whose names are in `names` have values of `value`; a member belongs to exactly one group.
  struct Members {
    std::string name;  // the only one, when `single`
    bool single = false, required = false;
    Languages::Id names = Languages::kNone;
    Formula value = kTrue;
    std::uint32_t wanted = 0;  // bit i: a member of this group may be the one that wanted[i] asks for
  };
  struct ObjectShape {
    std::vector<Members> groups;  // names first, then languages of names
    std::uint32_t least = 0, most = kNoLimit;
    std::vector<Formula> wanted;  // for each, some member has such a value (its group says which may)
  };

  /// The texts that a string or number may have; of the other scalars, kAnything or kNone.
  Languages::Id scalar(Formula f, JsonKind kind);
  /// The shapes an array or object may have: any of them.
  const std::vector<std::uint32_t>& arrays(Formula f);
  const std::vector<std::uint32_t>& objects(Formula f);
  const ArrayShape& array(std::uint32_t id) const { return array_shapes_[id]; }
  const ObjectShape& object(std::uint32_t id) const { return object_shapes_[id]; }
  /// Whether there is a value that satisfies it.
  bool satisfiable(Formula f);

  Formula both(Formula a, Formula b) { return all_of({a, b}); }
  Formula negation(Formula f);
  /// Exactly this value, as JSON Schema compares them: 1 is 1.0, members have no order.
  Formula equal(const Json& value);

 private:
  struct Atom;
  struct Node;
  struct Compiler;
  struct MemberFacts;
  using Case = std::vector<std::uint32_t>;  // atoms that all hold

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
  std::vector<Formula> in_question_;  // satisfiable() at work
  bool assumed_ = false;              // an answer rests on one of them
  std::size_t work_ = 0;              // formulas put together for the question at work
  bool left_out_ = false;             // a formula has more cases than are looked at
};

}  // namespace dml
