#include "core/json.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string message(auto&& deed) {
  try {
    deed();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}
std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  return message([&] { parse_json(text, "f.json", limits); });
}

TEST(ParseJson, KeepsTheOrderOfKeys) {
  EXPECT_EQ(dump(parse_json(R"({"z": 1, "a": [true, null, "x"], "m": {"k": 2.5}})", "f")),
            R"({"z":1,"a":[true,null,"x"],"m":{"k":2.5}})");
}

TEST(ParseJson, ReadsEveryScalarAtTheTop) {
  EXPECT_EQ(parse_json("-7", "f"), Json(-7));
  EXPECT_EQ(parse_json("18446744073709551615", "f"), Json(UINT64_MAX));
  EXPECT_EQ(parse_json(R"("é\n")", "f"), Json("é\n"));
  EXPECT_TRUE(parse_json("null", "f").is_null());
}

TEST(ParseJson, NamesTheLineOfAnError) {
  EXPECT_THAT(refusal("{\n\"a\": 1,\n\"b\": oops\n}"), StartsWith("f.json:3: not valid JSON: "));
  EXPECT_THAT(refusal(R"({"a": })"), StartsWith("f.json: not valid JSON: "));
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (auto text : {"", " ", "{", "[1,]", "{\"a\":1,}", "{'a':1}", "NaN", "1 2", "[1]x", "\"\\ud800\"", "\"\\x\"", "01",
                    "1e999", "\"open", "{\"a\" 1}", "// no\n1", "tru", "\"tab\there\""})
    EXPECT_THAT(refusal(text), HasSubstr("not valid JSON")) << text;
  EXPECT_THAT(refusal("\"\xc3\x28\""), HasSubstr("not valid JSON"));
}

TEST(ParseJson, QuotesABrokenStringBrieflyAndPrintably) {
  EXPECT_THAT(refusal("[\"a\xff\"]"), AllOf(HasSubstr("a\\xff"), Not(HasSubstr("\xff"))));
  EXPECT_LT(refusal("[\"" + std::string(100000, 'x')).size(), 300u);
}

TEST(ParseJson, LimitsDepth) {
  JsonLimits limits;
  limits.depth = 3;
  EXPECT_NO_THROW(parse_json("[[[1]]]", "f", limits));
  EXPECT_EQ(refusal("[[[[1]]]]", limits), "f.json: nested deeper than 3 levels");
  EXPECT_EQ(refusal(R"({"a":{"a":[{}]}})", limits), "f.json: nested deeper than 3 levels");
}

TEST(ParseJson, SurvivesAMillionBrackets) {
  for (char bracket : {'[', '{'}) EXPECT_NE(refusal(std::string(1000000, bracket)), "no error");
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_EQ(refusal(objects), "f.json: nested deeper than 64 levels");
}

TEST(ParseJson, LimitsTheWidthOfAnObjectAndNotTheSumOfAll) {
  JsonLimits limits;
  limits.object_keys = 2;
  EXPECT_NO_THROW(parse_json(R"([{"a":1,"b":{"a":1,"b":2}},{"c":3,"d":4}])", "f", limits));
  EXPECT_EQ(refusal(R"({"a":1,"b":2,"c":3})", limits), "f.json: an object has more than 2 keys");
}

TEST(ParseJson, LimitsTheNumberOfValues) {
  JsonLimits limits;
  limits.elements = 4;
  EXPECT_NO_THROW(parse_json("[1,2,3]", "f", limits));
  EXPECT_EQ(refusal("[1,2,3,4]", limits), "f.json: more than 4 values");
  EXPECT_EQ(refusal("[[],[],[],[]]", limits), "f.json: more than 4 values");
}

TEST(ParseJson, LimitsTheSize) {
  JsonLimits limits;
  limits.bytes = 4;
  EXPECT_NO_THROW(parse_json("[12]", "f", limits));
  EXPECT_EQ(refusal("[123]", limits), "f.json: 5 bytes of JSON, the limit is 4");
}

// As every JSON file of a model, a dataset or a prepared folder may have one.
TEST(ParseJson, SkipsOneByteOrderMarkAtTheBeginning) {
  EXPECT_EQ(parse_json("\xef\xbb\xbf{\"a\":1}", "f"), Json({{"a", 1}}));
  EXPECT_THAT(refusal("\xef\xbb\xbf"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal("\xef\xbb\xbf\xef\xbb\xbf{}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal("{}\xef\xbb\xbf"), HasSubstr("not valid JSON"));
}

TEST(ParseJson, RefusesAKeyGivenTwice) {
  EXPECT_EQ(refusal(R"({"a":1,"b":2,"a":3})"), "f.json: key 'a' is given twice");
  EXPECT_EQ(refusal(R"({"a":1,"\u0061":3})"), "f.json: key 'a' is given twice");
  EXPECT_NO_THROW(parse_json(R"([{"a":1},{"a":{"a":2}}])", "f"));
}

TEST(ParseJson, MessagesCannotControlTheTerminal) {
  EXPECT_EQ(refusal(R"({"\u001b[2J":1,"\u001b[2J":2})"), "f.json: key '\\x1b[2J' is given twice");
  EXPECT_EQ(refusal(R"({"\u009b2J":1,"\u009b2J":2})"), "f.json: key '\\x9b2J' is given twice");
  std::string longest(200, 'k');
  EXPECT_EQ(refusal("{\"" + longest + "\":1,\"" + longest + "\":2}"),
            "f.json: key '" + std::string(80, 'k') + "…' is given twice");
}

TEST(ReadJson, NamesTheFile) {
  testing_tools::TemporaryFolder folder;
  std::string path = folder / "bad.json";
  write_file(path, "[1,\n2,\n");
  EXPECT_THAT(message([&] { read_json(path); }), StartsWith(path + ":"));
  EXPECT_THAT(message([&] { read_wide_json(path + ".gone"); }), HasSubstr("no such file"));
  JsonLimits limits;
  limits.bytes = 3;
  EXPECT_THAT(message([&] { read_json(path, limits); }), HasSubstr("the limit is 3"));
}

TEST(Dump, ReplacesBytesThatAreNotUtf8) { EXPECT_EQ(dump(Json("a\xff")), "\"a\xef\xbf\xbd\""); }

class Members : public testing::Test {
 protected:
  Json object = parse_json(R"({"n": 7, "f": 7.0, "h": 7.5, "big": 1e300, "u": 18446744073709551615, "s": "x", "b": true,
                               "null": null, "list": [1, 2]})",
                           "f");
};

TEST_F(Members, AreReadWithTheirType) {
  EXPECT_EQ(json_integer(object, "n", 0, "f"), 7);
  EXPECT_EQ(json_integer(object, "f", 0, "f"), 7);
  EXPECT_EQ(json_number(object, "h", 0, "f"), 7.5);
  EXPECT_EQ(json_number(object, "n", 0, "f"), 7);
  EXPECT_EQ(json_bool(object, "b", false, "f"), true);
  EXPECT_EQ(json_string(object, "s", "", "f"), "x");
}

TEST_F(Members, AbsentAndNullGiveTheFallback) {
  for (const char* key : {"gone", "null"}) {
    EXPECT_EQ(json_integer(object, key, -3, "f"), -3);
    EXPECT_EQ(json_number(object, key, 0.5, "f"), 0.5);
    EXPECT_EQ(json_bool(object, key, true, "f"), true);
    EXPECT_EQ(json_string(object, key, "d", "f"), "d");
  }
}

TEST_F(Members, OfAnotherTypeAreAnErrorThatShowsTheValue) {
  EXPECT_EQ(message([&] { json_integer(object, "h", 0, "c.json"); }), "c.json: 'h' must be a whole number, is 7.5");
  EXPECT_EQ(message([&] { json_integer(object, "s", 0, "c.json"); }), "c.json: 's' must be a whole number, is \"x\"");
  EXPECT_EQ(message([&] { json_integer(object, "b", 0, "c.json"); }), "c.json: 'b' must be a whole number, is true");
  EXPECT_EQ(message([&] { json_number(object, "list", 0, "c.json"); }), "c.json: 'list' must be a number, is [1,2]");
  EXPECT_EQ(message([&] { json_bool(object, "n", false, "c.json"); }), "c.json: 'n' must be true or false, is 7");
  EXPECT_EQ(message([&] { json_string(object, "n", "", "c.json"); }), "c.json: 'n' must be a string, is 7");
}

TEST_F(Members, BeyondTheRangeOfIntegersAreAnError) {
  EXPECT_THAT(message([&] { json_integer(object, "u", 0, "f"); }), HasSubstr("must be a whole number"));
  EXPECT_THAT(message([&] { json_integer(object, "big", 0, "f"); }), HasSubstr("must be a whole number"));
}

TEST(Json, SkipsAByteOrderMark) { EXPECT_EQ(parse_json("\xef\xbb\xbf{\"a\": 1}", "f.json")["a"], 1); }

TEST(Json, TextIsAStringAsItIsOrJson) {
  EXPECT_EQ(text_or_json("a \"b\""), "a \"b\"");
  EXPECT_EQ(text_or_json(Json::array({"a", 1.5, nullptr})), "[\"a\",1.5,null]");
}

}  // namespace
}  // namespace dml
