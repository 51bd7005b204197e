// Regular expressions, choices and grammars as constraints, and what they make of a vocabulary.
#include <cmath>
#include <regex>

#include "constraint/token_mask.h"
#include "constraint_check.h"
#include "core/json.h"

namespace dml {
namespace {

// Every text of up to four of six characters.
template <class Use>
void each_text(Use use) {
  for (int n = 0; n < 5; ++n)
    for (int code = 0, all = static_cast<int>(std::pow(6, n)); code < all; ++code) {
      std::string text;
      for (int i = 0, c = code; i < n; ++i, c /= 6) text += "abcd1-"[c % 6];
      use(text);
    }
}

TEST(RegexConstraint, MatchesWhatTheStandardLibraryMatches) {
  const char* patterns[] = {"a*b",          "(ab|a)(bc|c)?", "[a-c]{2,3}", "[^b]+", "a(?:b|c)*?d", "(?=ab)a.*",
                            "(?!ab)[abc]+", "a|b|",          "\\d+a",      "^ab$",  "(a{2}){1,2}", "\\x61b"};
  for (const char* pattern : patterns) {
    const std::regex oracle(pattern, std::regex::ECMAScript);
    auto automaton = regex_automaton(pattern);
    each_text([&](const std::string& text) {
      EXPECT_EQ(automaton->accepts(text), std::regex_match(text, oracle)) << pattern << " on " << text;
    });
  }
}

TEST(RegexConstraint, FindsAssertionsAnywhere) {
  const char* patterns[] = {"\\ba",           "a\\b",
                            "b\\Bc|-\\B",     "(?:^a|b)c",
                            "^(?:(?!ab).)*$", "(?:(?!b)[a-c])+1",
                            "a?^b",           "(?:^|-)[ab]+$",
                            "(?:^a|\\bb){2}", "^(?:a\\b-?|b){2,}$",
                            "^(?:\\b)+a",     "(?=a\\b)a",
                            "(?:^|a)(?:b|$)", "^(?:(?!a|$).)*-$"};
  for (const char* pattern : patterns) {
    const std::regex oracle(pattern, std::regex::ECMAScript);
    auto automaton = schema_automaton(Json{{"pattern", pattern}}.dump(), "schema");
    each_text([&](const std::string& text) {
      EXPECT_EQ(automaton->accepts('"' + text + '"'), std::regex_search(text, oracle)) << pattern << " on " << text;
    });
  }
}

TEST(RegexConstraint, LooksBehindOneCharacter) {
  check(*regex_automaton("[a-c]+(?<!b)"), {"a", "ba", "abc"}, {"b", "ab", ""});
  check(R"({"type": "string", "pattern": "(?<=[.-])x(?<!y)$"})", {"\".x\"", "\"a-x\""}, {"\"x\"", "\".xa\"", "\"ax\""});
  check(R"({"type": "string", "pattern": "(?<!-|\\.)x"})", {"\"x\"", "\"ax\"", "\"-xx\""},
        {"\"-x\"", "\".x\"", "\"\""});
}

TEST(RegexConstraint, IgnoresCaseWhereAFlagSaysSo) {
  check(*regex_automaton("(?i)[a-c]é[^x]"), {"aéy", "BÉ!", "Céz"}, {"aéX", "aéx", "déy"});
  check(*regex_automaton("a(?i:b(?:c))d"), {"abcd", "aBCd"}, {"Abcd", "abcD"});
  check(*regex_automaton("(?i)[k\\u00df]"), {"k", "K", "\u212A", "ß", "ẞ"}, {"s"});  // several capitals of one letter
  check(*regex_automaton("(?i)[^\\p{Ll}]"), {"1", "ª"}, {"a", "A", "é", "É"});
}

TEST(RegexConstraint, SupportsWhatSchemasBorrowFromOtherDialects) {
  check(*regex_automaton("\\A[a-c]+\\Z"), {"abc"}, {"", "abcd", "A", "AabcZ"});
  check(*regex_automaton("(?s)a.b"), {"a\nb", "axb"}, {"ab"});
  check(R"({"type": "string", "pattern": "^a|b\\z"})", {"\"ax\"", "\"xb\""}, {"\"xbx\"", "\"xax\""});
}

TEST(RegexConstraint, SupportsUnicode) {
  check(*regex_automaton("\\p{Lu}\\p{Ll}+"), {"Äpfel", "Éa"}, {"äpfel", "A"});
  check(*regex_automaton("\\p{L}\\p{Letter}\\p{gc=Nd}\\P{N}"), {"aé٣-", "ßǅ7a"}, {"a1", "aé٣½"});
  EXPECT_THROW(regex_automaton("\\p{Xy}"), UserError);
  EXPECT_THROW(regex_automaton("\\p{}"), UserError);
  check(*regex_automaton("."), {"é", "😀", "a"}, {"\n", "ab", "\xC3"});
  check(*regex_automaton("[\\u{1F600}-\\u{1F64F}]"), {"😀"}, {"a"});
  EXPECT_TRUE(dead(*regex_automaton("é"), "\xC4"));
  EXPECT_FALSE(dead(*regex_automaton("é"), "\xC3"));
}

TEST(RegexConstraint, NamesThePositionOfUnsupportedSyntax) {
  auto error = [](const char* regex) {
    try {
      regex_automaton(regex);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error("a(b"), "regex 'a(b', character 4: a group has no ')'");
  EXPECT_THAT(error("a\\1"), testing::HasSubstr("back-references are not supported"));
  EXPECT_THAT(error("(?<=ab)c"), testing::HasSubstr("look-behind of anything but one character is not supported"));
  EXPECT_THAT(error("(?:a|\\b)*1"), testing::HasSubstr("a quantifier behind a look-around that may match nothing"));
  EXPECT_THAT(error("(((?!x)a){999}){999}"), testing::HasSubstr("too complex"));
  EXPECT_THAT(error("*a"), testing::HasSubstr("nothing to repeat"));
  EXPECT_THAT(error("[b-a]"), testing::HasSubstr("out of order"));
  EXPECT_THAT(error("a{3,2}"), testing::HasSubstr("out of order"));
  EXPECT_THAT(error(std::string(300, '(').c_str()), testing::HasSubstr("nested too deeply"));
}

TEST(ChoiceConstraint, AcceptsOnlyTheChoices) {
  check(*choice_automaton({"yes", "no", "not sure"}), {"yes", "no", "not sure"}, {"", "ye", "nox", "not"});
}

const char* const kArithmetic = R"gbnf(# sums of products
root  ::= sum "\n"?
sum   ::= term (ws [-+] ws term)*
term  ::= factor ([*/] factor)*
factor ::= number | "(" ws sum ws ")"
number ::= [1-9] [0-9]{0,2} | "0"
ws    ::= " "*
)gbnf";

TEST(GrammarConstraint, FollowsRulesThatReferToEachOther) {
  check(*grammar_automaton(kArithmetic, "g.gbnf"), {"1", "1+2*3", "(1 + 20)*((3))-4", "0\n"},
        {"", "01", "1+", "(1", "1234", "1 +2)"});
  auto a = grammar_automaton(kArithmetic, "g.gbnf");
  int ended = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto text = random_walk(*a, seed);
    EXPECT_TRUE(!text || a->accepts(*text)) << *text;
    ended += text.has_value();
  }
  EXPECT_GE(ended, 5);
}

TEST(GrammarConstraint, RepeatsAndEscapes) {
  check(*grammar_automaton("root ::= \"\\x41\\u00e9\" [^\\]\\n]{2} . (\"x\" |\n \"y\")+", "g"), {"Aéab😀xy", "Aé  .y"},
        {"Aéa]bx", "Aéabc", "Aab.x"});
  check(*grammar_automaton("root ::= (ws \"a\"?)*\nws ::= \" \"?", "g"), {"", " a a", "aa"}, {"b"});
  check(*grammar_automaton("root ::= a | \"x\"\na ::= \"(\" a \")\"", "g"), {"x"}, {"(", "()"});  // a never ends
}

TEST(GrammarConstraint, AcceptsWhatAnEqualExpressionMatches) {
  const std::pair<const char*, const char*> pairs[] = {{"(\"a\"{0,2} \"b\"?){0,2}", "(?:a{0,2}b?){0,2}"},
                                                       {"([a-c]{0,1}){0,3} \"d\"", "[a-c]{0,3}d"},
                                                       {"([ab]* [b-d])* \"1\"?", "(?:[ab]*[b-d])*1?"},
                                                       {"[^a] ([ac] | \"c\" | [b-z])+", "[^a][a-z]+"}};
  for (auto& [grammar, regex] : pairs) {
    auto a = grammar_automaton(std::string("root ::= ") + grammar, "g"), b = regex_automaton(regex);
    each_text([&](const std::string& text) { EXPECT_EQ(a->accepts(text), b->accepts(text)) << grammar << text; });
  }
}

TEST(GrammarConstraint, NamesThePositionOfAnError) {
  auto error = [](const char* grammar) {
    try {
      grammar_automaton(grammar, "g.gbnf");
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error("root ::= \"a\" nmuber\nnumber ::= [0-9]"),
            "g.gbnf:1: there is no rule 'nmuber'; did you mean 'number'?");
  EXPECT_EQ(error("root ::= \"a"), "g.gbnf:1:12: a literal has no closing '\"'");
  EXPECT_EQ(error("root = \"a\""), "g.gbnf:1:6: expected '::='");
  EXPECT_THAT(error("root ::= root \"a\" | \"b\""), testing::HasSubstr("left-recursive"));
  EXPECT_THAT(error("root ::= a \"x\" | \"b\"\na ::= \"\" root"), testing::HasSubstr("left-recursive"));
  EXPECT_THAT(error("start ::= \"a\""), testing::HasSubstr("there is no rule 'root'"));
  EXPECT_THAT(error("root ::= \"(\" root \")\""), testing::HasSubstr("never ends"));
  EXPECT_THAT(error("root ::= \"a\"{1,9999999}"), testing::HasSubstr("too many repetitions"));
}

// The mask is what one finds by trying every token.
TEST(TokenMask, EqualsTryingEveryToken) {
  std::vector<std::string> texts{"",     "{", "}",   "\"",    "\"a\"",   "\"a\":", ":",    "1",    "12",
                                 ",",    " ", "{\"", "a",     "b",       "ab",     "null", "nu",   "\xC3",
                                 "\xA9", "é", "1}",  "\\u00", "\"b\":[", "]",      "[]",   "true}"};
  for (int c = 'c'; c < 'z'; ++c) texts.push_back(std::string(1, static_cast<char>(c)));
  auto tree = std::make_shared<const TokenTree>(texts);
  const std::string schema =
      R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"items": {"type": "string"}, "type": "array"}}})";
  TokenConstraint constraint(schema_automaton(schema, "schema"), tree);
  auto alone = schema_automaton(schema, "schema");
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    auto state = constraint.start();
    std::string text;
    for (int step = 0; step < 30; ++step) {
      const TokenSet allowed = constraint.allowed(state);
      std::vector<int> next;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const bool in = allowed[i / 64] >> i % 64 & 1;
        EXPECT_EQ(in, !texts[i].empty() && !dead(*alone, text + texts[i])) << text << " + " << texts[i];
        if (in) next.push_back(static_cast<int>(i));
      }
      EXPECT_EQ(constraint.may_end(state), alone->accepts(text));
      if (next.empty()) break;
      const int token = next[random() % next.size()];
      state = constraint.after(state, token);
      text += texts[static_cast<std::size_t>(token)];
    }
  }
}

TEST(TokenMask, AFirstTokenMayHaveAnotherText) {
  auto tree = std::make_shared<const TokenTree>(std::vector<std::string>{" yes", "yes", " no", "s"});
  auto first = std::make_shared<const TokenTree>(std::vector<std::string>{"yes", "yes", "no", "s"});
  TokenConstraint constraint(choice_automaton({"yes", "no"}), tree, first);
  EXPECT_EQ(constraint.allowed(constraint.start()), TokenSet{0b0111});
  const auto text = constraint.after(constraint.start(), 2);
  EXPECT_EQ(constraint.allowed(text), TokenSet{0});
  EXPECT_TRUE(constraint.may_end(text));
}

}  // namespace
}  // namespace dml
