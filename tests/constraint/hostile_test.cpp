// Constraints of up to some hundred kilobytes that are made to exhaust the stack or the time of a server. They are
// refused, or work.
#include <pthread.h>

#include <functional>

#include "constraint/gbnf.h"
#include "constraint/language.h"
#include "constraint/regex.h"
#include "constraint/token_mask.h"
#include "constraint_check.h"

namespace dml {
namespace {

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

/// Runs `work` on a thread with a stack of 1 MiB: recursion over every character of a constraint overflows it, which
/// ends the test program. The message of what it throws; empty if it returns.
std::string on_a_small_stack(std::function<void()> work) {
  struct Task {
    std::function<void()> work;
    std::string problem;
  } task{std::move(work), {}};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 1 << 20);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    auto& own = *static_cast<Task*>(argument);
    try {
      own.work();
    } catch (const UserError& error) {
      own.problem = error.what();
    }
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, &attributes, run, &task), 0);
  pthread_attr_destroy(&attributes);
  pthread_join(thread, nullptr);
  return task.problem;
}

TEST(HostileConstraint, AQuantifierRepeatsNoQuantifier) {
  const std::string problem = on_a_small_stack([] { regex_automaton("a" + repeated("?", 40'000)); });
  EXPECT_THAT(problem, testing::HasSubstr("character 4: nothing to repeat"));
  for (const char* twice : {"a**", "a{2}{3}", "a+{2}", "(?:a)?*", "{2}a", "a|+"})
    EXPECT_THROW(regex_automaton(twice), UserError) << twice;
  check(*regex_automaton("a??b*?c+?d{2}?(?:e?)*"), {"cdd", "abbcddee"}, {"cd", "aabcdd"});
  check(*regex_automaton("{a}{,2}"), {"{a}{,2}"}, {"aa"});  // no quantifiers
}

TEST(HostileConstraint, PartsThatMayBeEmptyFollowEachOther) {
  const std::string optional = repeated("a?", 20'000);
  const auto read = [](const std::string& regex) {
    return on_a_small_stack([&] { check(*regex_automaton(regex), {"", "aa"}, {"b"}); });
  };
  EXPECT_THAT(read("^" + optional + "$"), testing::HasSubstr("too complex"));
  EXPECT_EQ(read("^" + repeated("a?", 1000) + "$"), "");
  EXPECT_EQ(read(repeated("(?:a?(?!b))", 2000)), "") << "an intersection in every part";
  EXPECT_EQ(on_a_small_stack([] {
              WorkLimit work;
              Languages languages(work);
              Languages::Id chain = languages.label(7);
              for (int i = 0; i < 50'000; ++i)
                chain = languages.concatenation(languages.optional(languages.character('a')), chain);
              EXPECT_EQ(languages.labels(chain), std::vector<std::uint32_t>{7});
            }),
            "");
}

// The members of a category are found once, and classes of many ranges count as several terms.
TEST(HostileConstraint, CategoriesAreRepeated) {
  EXPECT_EQ(on_a_small_stack([] { check(*regex_automaton(repeated("\\p{L}?", 500)), {"", "aé"}, {"1"}); }), "");
  EXPECT_EQ(on_a_small_stack([] { check(*regex_automaton("(?i)" + repeated("\\P{Lu}?", 500)), {"aB"}, {}); }), "");
  EXPECT_THAT(on_a_small_stack([] { regex_automaton("(?i)" + repeated("\\P{Lu}", 20'000)); }),
              testing::HasSubstr("more than 500000 terms"));
}

// Each set of characters behind which something may follow multiplies the work.
TEST(HostileConstraint, LooksBehindManyCharacters) {
  std::string distinct;
  for (int i = 0; i < 3000; ++i) distinct += fmt::format("(?<=\\u{:04x})b|", 0x4E00 + 2 * i);
  EXPECT_THAT(on_a_small_stack([&] { regex_automaton(distinct); }), testing::HasSubstr("too complex"));
  EXPECT_EQ(on_a_small_stack([] { check(*regex_automaton("a" + repeated("(?<=\\p{L})", 8000)), {"a"}, {"b"}); }), "");
}

TEST(HostileConstraint, ALongTextIsRepeated) {
  const std::string text(100'000, 'a');
  EXPECT_EQ(on_a_small_stack([&] { check(*regex_automaton("^(" + text + ")+b$"), {text + "b"}, {"ab"}); }), "");
  EXPECT_THAT(on_a_small_stack([] { regex_automaton(std::string(600'000, 'a')); }),
              testing::HasSubstr("more than 500000 terms"));
}

TEST(HostileConstraint, ChoicesHaveALongPrefixInCommon) {
  const std::string text(100'000, 'a');
  EXPECT_EQ(on_a_small_stack([&] {
              check(*choice_automaton({text + "b", text + "c"}), {text + "b", text + "c"}, {text, "ab"});
              check(R"({"enum": [")" + text + R"(b", ")" + text + R"(c"]})", {'"' + text + "b\""}, {"\"ab\""});
            }),
            "");
  std::vector<std::string> longer;  // each the prefix of the next
  for (std::size_t n = 1; n <= 2000; ++n) longer.push_back(std::string(n, 'a'));
  EXPECT_EQ(on_a_small_stack([&] { check(*choice_automaton(longer), longer, {"", "b", std::string(2001, 'a')}); }), "");
}

TEST(HostileConstraint, TreesOfTextsEndWithTheirOwnTails) {
  WorkLimit work;
  Languages l(work);
  const auto text = [&](std::u32string_view s) { return l.literal(s); };
  const Languages::Id tree = l.dictionary({{U"", text(U"0")},
                                           {U"ab", text(U"1")},
                                           {U"abc", text(U"2")},
                                           {U"abd", text(U"3")},
                                           {U"ab", text(U"4")},
                                           {U"x", text(U"5")}});
  const Languages::Id list =
      l.either({text(U"0"), text(U"ab1"), text(U"abc2"), text(U"abd3"), text(U"ab4"), text(U"x5")});
  EXPECT_TRUE(l.empty(l.difference(tree, list)));
  EXPECT_TRUE(l.empty(l.difference(list, tree)));
  EXPECT_EQ(l.dictionary({}), Languages::kNone);
}

TEST(HostileConstraint, NestingIsLimited) {
  const auto nested = [](std::string_view begin, int times, std::string_view inside, std::string_view end) {
    return repeated(begin, times) + std::string(inside) + repeated(end, times);
  };
  EXPECT_EQ(on_a_small_stack([&] { check(*regex_automaton(nested("(?:", 99, "a", ")?")), {"a", ""}, {"b"}); }), "");
  EXPECT_EQ(on_a_small_stack([&] { check(*regex_automaton(nested("(?=", 99, "a", ")") + "a"), {"a"}, {"b"}); }), "");
  EXPECT_EQ(on_a_small_stack([&] { grammar_automaton("root ::= " + nested("(", 199, "\"a\"", ")*"), "g"); }), "");
  EXPECT_EQ(on_a_small_stack([&] { check(nested(R"({"items":)", 60, "{}", "}"), {"[[[]]]"}, {"[}"}); }), "");
  EXPECT_EQ(on_a_small_stack([&] { check(nested(R"({"not":)", 60, R"({"type":"null"})", "}"), {"null"}, {"1"}); }), "");
}

// Without limits and in quadratic time, these take minutes.
TEST(HostileConstraint, AGrammarIsCheckedInLinearTime) {
  EXPECT_THAT(on_a_small_stack([] { grammar_automaton("root ::= \"a\"" + repeated("*", 150'000), "g"); }),
              testing::HasSubstr("the grammar is too large"));
  EXPECT_THAT(on_a_small_stack([] { grammar_automaton("root ::= \"a\"" + repeated("{0}", 150'000), "g"); }),
              testing::HasSubstr("the grammar is too large"));
  const auto chain = [](const std::string& last) {
    constexpr int kRules = 90'000;
    std::string out = "root ::= r0\n";
    for (int i = 0; i < kRules; ++i) out += fmt::format("r{} ::= r{} \"a\"\n", i, i + 1);
    return out + fmt::format("r{} ::= {}\n", kRules, last);
  };
  EXPECT_EQ(on_a_small_stack([&] { EXPECT_EQ(parse_gbnf(chain("\"b\""), "g").rules.size(), 90'002U); }), "");
  EXPECT_EQ(on_a_small_stack([&] { parse_gbnf(chain("r0 | \"b\""), "g"); }),
            "g: rule 'r0' is left-recursive: it begins with itself, which is not supported");
  EXPECT_EQ(on_a_small_stack([&] { parse_gbnf(chain("missing"), "g"); }), "g:90002: there is no rule 'missing'");
}

// All texts of two and three letters, and a long one.
std::shared_ptr<const TokenTree> letters(std::size_t longest) {
  std::vector<std::string> texts{std::string(longest, 'a')};
  for (char a = 'a'; a <= 'z'; ++a)
    for (char b = 'a'; b <= 'z'; ++b) {
      texts.push_back({a, b});
      for (char c = 'a'; c <= 'z'; ++c) texts.push_back({a, b, c});
    }
  return std::make_shared<const TokenTree>(texts);
}

// 8100 ways to read a text: they are found once for all letters, not for each of the vocabulary's texts.
TEST(HostileConstraint, OptionalRepetitionsAreNested) {
  std::shared_ptr<Automaton> a = grammar_automaton("root ::= (a{0,90}){0,90}\na ::= [a-z ]", "g");
  const std::size_t before = a->bytes();
  TokenConstraint constraint(a, letters(100));
  auto text = constraint.start();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(constraint.allowed(text)[0], ~std::uint64_t{0});
    text = constraint.after(text, i == 10 ? 0 : 5 + i);
  }
  a->limit_work(SIZE_MAX);
  EXPECT_TRUE(a->accepts(std::string(200, 'a')));
  EXPECT_GT(a->bytes(), before + 200 * 1000 * sizeof(std::uint32_t)) << "the ways of 200 states";
  EXPECT_LT(a->bytes(), before + (100u << 20));
}

// What may follow is found in bounded work, or the request fails; the constraint stays as good as before.
TEST(HostileConstraint, OneTokenTakesBoundedWork) {
  std::string grammar = "root ::= x\nx ::= \"\"", y;  // 90,000 ways to read a letter
  for (int i = 0; i < 300; ++i)
    grammar += fmt::format(" | y \"{}\"", i), y += fmt::format("{}\"q{}\"", i ? " | " : "", i);
  EXPECT_THAT(on_a_small_stack([&] {
                auto a = grammar_automaton(grammar + "\ny ::= " + y, "g");
                a->accepts("q17q1");
              }),
              testing::HasSubstr("too ambiguous"));
  std::shared_ptr<Automaton> nested = grammar_automaton("root ::= (([a-z]{0,26}){0,26}){0,26}", "g");
  TokenConstraint constraint(nested, letters(800));
  EXPECT_THAT(on_a_small_stack([&] { constraint.allowed(constraint.start()); }), testing::HasSubstr("takes too long"));
  EXPECT_GT(constraint.automaton_bytes(), 1u << 20) << "counted although the request fails";
  nested->limit_work(SIZE_MAX);
  check(*nested, {"", "abc", std::string(50, 'z')}, {"a1"});
}

TEST(HostileConstraint, WorkThatWasCutOffIsDoneLater) {
  const std::string schema = R"({"type": "object", "properties": {"a": {"type": "number", "minimum": 2}, "b": {"type":
    "array", "items": {"enum": ["x", "y"]}, "uniqueItems": true}}, "required": ["b"], "minProperties": 3})";
  const auto answer = [&] { return schema_automaton(schema, "s", JsonSpace::one); };
  const std::string text = R"({"a":12.5,"b":["x","y"],"cd":"é"})";
  const std::pair<std::unique_ptr<Automaton>, std::string> all[] = {
      {answer(), text},
      {either_automaton(choice_automaton({"{}"}), answer()), text},
      {regex_automaton("(?=.*b)[^x]*a?"), "cédba"},
      {grammar_automaton("root ::= ([a-z]? root2?)+\nroot2 ::= \"(\" root \")\"", "g"), "ab(c(d))"}};
  for (auto& [automaton, accepted] : all) {
    int failures = 0;
    for (std::size_t work = 0; work < 2000; ++work) {
      automaton->limit_work(work);
      try {
        EXPECT_TRUE(automaton->accepts(accepted)) << accepted;
        break;
      } catch (const UserError&) {
        ++failures;
      }
    }
    EXPECT_GT(failures, 2) << accepted;
    EXPECT_TRUE(automaton->accepts(accepted)) << accepted;
  }
}

TEST(HostileConstraint, LeftRecursionLeadsBackOverOtherRules) {
  const auto problem = [](const char* grammar) { return on_a_small_stack([&] { parse_gbnf(grammar, "g"); }); };
  EXPECT_EQ(problem("root ::= a | \"x\" root\na ::= b\nb ::= \"y\" a | c \"z\"\nc ::= \"c\""), "");
  EXPECT_EQ(problem("root ::= a \"r\" | \"x\"\na ::= b | \"a\"\nb ::= root"),
            "g: rule 'root' is left-recursive: it begins with itself, which is not supported");
  EXPECT_EQ(problem("root ::= \"x\" a\na ::= (e a \"1\")? \"2\"\ne ::= \"\" | \"e\""),
            "g: rule 'a' is left-recursive: it begins with itself, which is not supported");
  EXPECT_EQ(problem("root ::= a\na ::= a | \"x\""), "") << "nothing grows";
}

}  // namespace
}  // namespace dml
