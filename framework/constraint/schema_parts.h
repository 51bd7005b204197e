// Types shared by schema.cpp (formulas), schema_shapes.cpp (shapes), schema_compile.cpp (keywords) and
// schema_references.cpp.
#pragma once

#include <deque>
#include <set>

#include "constraint/schema.h"

namespace dml {

inline constexpr int kDeepestSchema = 100;   // maximum nesting of subschemas
inline constexpr int kDeepestFormula = 200;  // maximum nesting of formulas about one value

/// A statement about values of one kind; true for values of other kinds.
struct Schema::Atom {
  enum class Says { kind, text, items, item_count, counted, unique, members, member_count, some_member } says;
  JsonKind kind;
  Languages::Id language = Languages::kNone;  // text: of the string or number; some_member: of its name
  std::vector<Formula> prefix{};              // items
  Formula formula = kTrue;  // items: after the prefix; counted, some_member: of the value; members: of others
  std::uint32_t from = 0, least = 0, most = kNoLimit;
  std::vector<std::pair<std::string, Formula>> named{};  // members: of these names; some_member: its name, if it is one
  std::vector<std::pair<Languages::Id, Formula>> patterns{};  // members: of names in these languages
};

/// A question is being answered: what it and those within it may take together is limited.
struct Schema::Question {
  explicit Question(Schema& of) : schema(of) {
    if (schema.questions_++ == 0) schema.work_ = 0;
  }
  ~Question() {
    if (--schema.questions_ > 0) return;
    schema.in_question_.clear();  // after an error
    schema.assumed_ = false;
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  Schema& schema;
};

struct Schema::Node {
  enum class Kind { yes, no, atom, negation, all_of, any_of, one_of, choice, reference } kind;
  std::vector<std::uint32_t> parts;  // formulas; an atom's number; a reference's

  /// The branches of one_of or choice. The parts of a choice are its branches, followed by, for each branch, the
  /// condition that holds if it is the chosen one, including the branch itself.
  std::vector<Formula> branches() const {
    return {parts.begin(), kind == Kind::choice ? parts.begin() + std::ssize(parts) / 2 : parts.end()};
  }
  Formula held(std::size_t i) const { return parts[kind == Kind::choice ? parts.size() / 2 + i : i]; }
};

/// Compiles keywords to formulas; knows the document's identifiers and anchors.
struct Schema::Compiler {
  Compiler(Schema& schema, const Json& document);

  Formula compile(const Json& s, const std::string& path);
  /// The formula of reference i, compiled on first use.
  Formula target(std::uint32_t i);

 private:
  struct Place {
    const Json* json;
    std::string path, base;
  };
  void index(const Json& s, const std::string& path, std::string base, bool names = false);
  const Place* place_of(const std::string& to, const std::string& path);
  Formula reference(const std::string& to, const std::string& path);
  void dynamic_references(const Json& s, const std::string& path, std::vector<Formula>& out);
  const Place* find(const std::string& uri, const std::string& base, const std::string& path);
  Formula keywords(const Json& s, const std::string& path);
  Formula types(const Json& type, const std::string& path);        // "type"
  Formula values_of(const Json& values, const std::string& path);  // "enum"
  void string_keywords(const Json& s, const std::string& path, std::vector<Formula>& out);
  void number_keywords(const Json& s, const std::string& path, std::vector<Formula>& out);
  void array_keywords(const Json& s, const std::string& path, std::vector<Formula>& out);
  void object_keywords(const Json& s, const std::string& path, std::vector<Formula>& out);
  void property_keywords(const Json& s, const std::string& path, std::vector<Formula>& out);
  void dependency_keywords(const Json& s, const std::string& path, std::vector<Formula>& out);
  // schema_unevaluated.cpp
  struct Evaluated;
  void evaluated_if(const Json& branch, Formula holds, const std::string& path, std::vector<Evaluated>& out);
  void evaluated_in_choice(const Json& s, const std::string& path, std::vector<Evaluated>& out);
  void evaluated_in_branches(const Json& s, const std::string& path, std::vector<Evaluated>& out);
  std::vector<Evaluated> evaluated(const Json& s, const std::string& path, bool itself = false);
  Formula other_members(const std::vector<Evaluated>& all, Formula value);
  Formula other_items(const std::vector<Evaluated>& all, Formula value);
  Formula left_over(const std::vector<Evaluated>& all, Formula value, bool members);
  void unevaluated_keywords(const Json& s, const std::string& path, std::vector<Formula>& out);

  // schema_branches.cpp
  template <class Use>
  void each_implied(const Json& s, int depth, Use use);
  const Json* constants(const Json& s, std::deque<Json>& made);
  using Marks = std::map<std::string, std::set<Json>>;
  Marks marks(const Json& branch, const Json& beside, bool object);
  static std::vector<std::size_t> excluding(const std::vector<Marks>& all);
  Formula one_of_marked(std::vector<Formula> branches, std::vector<Marks> known);
  Formula one_of(const Json& s, const std::string& path);

  std::vector<Formula> subschemas(const Json& s, const char* keyword, const std::string& path);
  std::uint32_t count(const Json& s, const char* keyword, const std::string& path, std::uint32_t fallback);
  Formula has(const std::string& name);
  const Json* object_of(const Json& s, const char* keyword, const std::string& path) const;  // null if absent
  [[noreturn]] void refuse(const std::string& path, std::string_view keyword, std::string_view what) const;

  Schema& schema_;
  Languages& l_;
  Json document_;
  std::deque<Json> meta_schemas_;  // that it refers to
  int draft_ = 2020;
  std::map<std::string, Place> places_;         // by absolute URI with fragment
  std::map<const Json*, std::string> bases_;    // base URI of every subschema
  std::map<std::string, int> dynamic_anchors_;  // number of occurrences of each
  std::map<std::string, Formula> has_;
  struct Choice {
    std::vector<Formula> branches;
    Formula whole;
  };
  std::vector<Choice> choices_;  // oneOfs next to an unevaluated… keyword
  int resources_ = 0;            // number of subschemas with an identifier
  std::map<const Json*, Formula> compiled_;
  std::deque<Place> targets_;
  std::vector<std::optional<Formula>> target_formulas_;
  std::map<const Json*, std::uint32_t> target_ids_;
  std::string base_;  // of the schema being compiled
  int depth_ = 0;
};

/// The value of a member, which may be JSON's null; a null pointer if `json` is no object or has no such member.
inline const Json* value_at(const Json& json, const char* key) {
  auto it = json.find(key);
  return it == json.end() ? nullptr : &*it;
}

}  // namespace dml
