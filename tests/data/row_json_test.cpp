// The fast parser of rows compared with the parser that it replaces.
#include "data/row_json.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace dml {
namespace {

// What is taken must be taken by parse_json, and be the same: value, order of keys, kinds of numbers.
bool same(const std::string& text) {
  static Json used;  // holds what was read before
  Json fast;
  if (!read_row_json(text, fast)) return false;
  EXPECT_TRUE(read_row_json(text, used)) << text;
  EXPECT_EQ(dump(used), dump(fast)) << text;
  EXPECT_EQ(used.type(), fast.type()) << text;
  const Json slow = parse_json(text, "row");
  EXPECT_EQ(fast, slow) << text;
  EXPECT_EQ(dump(fast), dump(slow)) << text;
  EXPECT_EQ(fast.type(), slow.type()) << text;
  return true;
}

TEST(RowJson, ReadsTypicalRows) {
  for (const char* text :
       {R"({"instruction": "Say \"hi\"\n", "input": "", "output": "h\u00e9 \ud83d\ude42 \/\\ \b\f\t\r"})",
        R"({"messages":[{"role":"user","content":"ä日本"},{"role":"assistant","content":null,"train":false}]})",
        " { } ", "[]", "[[],[{}],[ ]]", "\"\"", "0", "-0", "12", "-7", "1.5", "-2.5e-3", "1E+2", "123456789012345678",
        "true", "false", "null", "{\"a\":{\"b\":{\"c\":[1,2.0,-3]}}}",
        "\"a string that is longer than eight bytes\\u0000\""})
    EXPECT_TRUE(same(text)) << text;
}

TEST(RowJson, KeepsKindsOfNumbers) {
  Json row;
  ASSERT_TRUE(read_row_json("[1, -1, 1.0, 0]", row));
  EXPECT_TRUE(row[0].is_number_unsigned());
  EXPECT_TRUE(row[1].is_number_integer() && !row[1].is_number_unsigned());
  EXPECT_TRUE(row[2].is_number_float());
  EXPECT_TRUE(row[3].is_number_unsigned());
}

TEST(RowJson, LeavesTheRestToTheOtherReader) {
  std::string deep(65, '['), wide = "{";
  for (int i = 0; i < 65; ++i) wide += fmt::format("{}\"k{}\":0", i ? "," : "", i);
  Json out;
  for (const std::string& text : {std::string(),
                                  std::string(" "),
                                  std::string("{"),
                                  std::string("{\"a\""),
                                  std::string("{\"a\":1,}"),
                                  std::string("[1,]"),
                                  std::string("[1 2]"),
                                  std::string("{\"a\":1,\"a\":2}"),
                                  std::string("01"),
                                  std::string("1."),
                                  std::string(".5"),
                                  std::string("+1"),
                                  std::string("1e"),
                                  std::string("-"),
                                  std::string("1e999"),
                                  std::string("1234567890123456789"),
                                  std::string("tru"),
                                  std::string("nul"),
                                  std::string("NaN"),
                                  std::string("\"a"),
                                  std::string("\"\\x\""),
                                  std::string("\"\\u12\""),
                                  std::string("\"\\u12g4\""),
                                  std::string("\"\\ud800\""),
                                  std::string("\"\\udc00\""),
                                  std::string("\"\\ud800\\u0041\""),
                                  std::string("\"\\u-123\""),
                                  std::string("\"a\nb\""),
                                  std::string("\"\xff\""),
                                  std::string("\"\xc3\""),
                                  std::string("{} x"),
                                  std::string("\xef\xbb\xbf{}"),
                                  deep,
                                  wide + "}"})
    EXPECT_FALSE(read_row_json(text, out)) << text;
}

// Rows with bytes changed, doubled, cut out: whatever the fast reader takes, the other one takes and reads alike.
TEST(RowJson, NeverTakesMoreThanTheOtherReader) {
  const std::string seed =
      R"({"a": "x\u00e9\ud83d\ude42\n", "b": [1, -2.5e3, true, null, {"c": ""}], "ä": {"d": [[], {}]}})";
  const std::string letters = "{}[]\",:\\u0d81e+-.5 tfn\n\x80\xc3\xa4\xff";
  int taken = 0;
  std::uint64_t count = 0;
  auto pick = [&](std::size_t n) {
    std::uint64_t x = (++count) * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    return static_cast<std::size_t>((x ^ (x >> 31)) % n);
  };
  for (int round = 0; round < 60000; ++round) {
    std::string text = seed;
    for (std::size_t changes = 1 + pick(3); changes > 0; --changes) {
      const std::size_t at = pick(text.size());
      switch (pick(4)) {
        case 0:
          text[at] = letters[pick(letters.size())];
          break;
        case 1:
          text.erase(at, 1 + pick(4));
          break;
        case 2:
          text.insert(at, 1, letters[pick(letters.size())]);
          break;
        default:
          text.insert(at, text.substr(pick(text.size()), 1 + pick(12)));
      }
    }
    try {
      taken += same(text);
    } catch (const UserError& error) {
      ADD_FAILURE() << "only the fast reader takes " << text << ": " << error.what();
    }
  }
  EXPECT_GT(taken, 1000);
}

TEST(EndOfPlain, FindsTheFirstSpecialByte) {
  for (std::size_t size = 0; size < 40; ++size) {
    std::string text(size, '\xe4');
    EXPECT_EQ(end_of_plain(text.data(), text.data() + size), text.data() + size);
    for (std::size_t at = 0; at < size; ++at)
      for (char c : {'"', '\\', '\n', '\0', '\x1f', '\x20', '\x21', '\x7f', '\x80', '\xa2', '\xdc', '\xff'}) {
        text.assign(size, 'x');
        text[at] = c;
        const bool stops = c == '"' || c == '\\' || (static_cast<unsigned char>(c) < 0x20);
        EXPECT_EQ(end_of_plain(text.data(), text.data() + size), text.data() + (stops ? at : size))
            << size << ' ' << at;
      }
  }
}

// Errors in a large row are reported on a shortened copy.
TEST(RowJson, ShortensARowAroundTheBytesThatAreWrong) {
  const std::string plain(5000, 'x'), lines = [] {
    std::string out;
    for (int i = 0; i < 1000; ++i) out += "\\ud83d\\ude42\\n\\\"ä日";
    return out;
  }();
  for (const std::string& text : {plain, lines})
    for (const std::string& row :
         {"{\"a\": \"" + text + "\"} x", "{\"a\": \"" + text, "{\"a\": \"" + text + "\\x" + text + "\"}",
          "{\"a\": \"" + text + "\xff" + text + "\"}", "{\"a\": \"" + text + "\", \"a\": \"" + text + "\"}",
          "{\"a\": [\"" + text + "\", \"" + text + "\" 1]}", "{\"a\": \"" + text + "\n" + text + "\"}"}) {
      const auto problem = [](const std::string& json) -> std::string {
        try {
          parse_json(json, "row");
        } catch (const UserError& error) {
          return error.what();
        }
        return "";
      };
      Json out;
      std::size_t stopped = 0;
      ASSERT_FALSE(read_row_json(row, out, 1000, &stopped));
      const std::string brief = shortened_row(row, stopped), whole = problem(row), said = problem(brief);
      EXPECT_LT(brief.size(), 2000u);
      EXPECT_EQ(said.substr(0, said.find("; last read")), whole.substr(0, whole.find("; last read")));
      EXPECT_NE(said, "");
    }
}

}  // namespace
}  // namespace dml
