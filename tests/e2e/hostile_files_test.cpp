// Files that are invalid, huge or made to exhaust memory, given to the whole program: one line, exit code 2 and little
// memory. Smaller errors are tested with each reader.
#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>

#include "core/error.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

constexpr int kMillion = 1'000'000;

// A file as texts, each repeated, so that what is tested is never in the memory of the test. '#' is how many there
// were.
struct Part {
  Part(std::string what, int often = 1) : text(std::move(what)), times(often) {}
  Part(const char* what, int often = 1) : Part(std::string(what), often) {}
  std::string text;
  int times;
};
using File = std::vector<Part>;

struct Hostile {
  std::string name;
  File file;
  std::string says;
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

class HostileFile : public Workshop, public testing::WithParamInterface<Hostile> {
 protected:
  void put(const std::string& name, const File& file) const {
    fs::create_directories(fs::path(at(name)).parent_path());
    std::FILE* out = std::fopen(at(name).c_str(), "w");
    DML_CHECK(out != nullptr);
    for (auto& part : file) {
      std::string block;
      for (int i = 0; i < part.times;) {
        block.clear();
        for (; i < part.times && block.size() < 65536; ++i)
          for (char c : part.text) c == '#' ? void(block += std::to_string(i)) : void(block += c);
        std::fwrite(block.data(), 1, block.size(), out);
      }
    }
    std::fclose(out);
  }
};

std::string name_of_case(const testing::TestParamInfo<Hostile>& info) { return info.param.name; }

// ---- tokenizer.json

class HostileTokenizerJson : public HostileFile {};

TEST_P(HostileTokenizerJson, IsRefused) {
  put("model/tokenizer.json", GetParam().file);
  expect_refused(dml({"tokenize", "--model", at("model"), "--text", "a b " + std::string(60, 'a') + "b"}), 2,
                 {at("model/tokenizer.json"), GetParam().says});
}

const std::string kBpe = R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";

INSTANTIATE_TEST_SUITE_P(
    Table, HostileTokenizerJson,
    testing::ValuesIn(std::vector<Hostile>{
        {"Empty", {""}, "not valid JSON"},
        {"ATokenOf10MB",
         {R"({"model": {"type": "BPE", "vocab": {")", {"x", 10 << 20}, R"(": 0}, "merges": []}})"},
         "4 MiB without a string"},
        {"ATokenOf1MB",
         {R"({"model": {"type": "BPE", "vocab": {")", {"x", 1 << 20}, R"(": 0}, "merges": []}})"},
         "the limit is 65536"},
        {"BlanksOf64MB", {{" ", 64 << 20}}, "4 MiB without a string"},
        {"BlanksOf64MBBetween", {"{", {"\n", 64 << 20}, kBpe}, "4 MiB without a string"},
        {"ANumberOf64MB", {R"({"version": 1)", {"0", 64 << 20}, ", " + kBpe}, "4 MiB without a string"},
        {"VeryDeep", {{"[", 100000}}, "nested deeper"},
        {"ASequenceOfSequences",
         {R"({"normalizer": )",
          {R"({"type": "Sequence", "normalizers": [)", 10000},
          R"({"type": "Lowercase"})",
          {"]}", 10000},
          ", " + kBpe},
         "nested deeper"},
        {"AHundredThousandAddedTokens",
         {R"({"added_tokens": [{"id": 3, "content": "x"})",
          {R"(, {"id": 1#, "content": "<#>"})", 100000},
          "], " + kBpe},
         "more than 65536 added tokens"},
        {"AMillionKeys", {"{", {R"("k": 1, )", kMillion}, kBpe}, "given twice"},
        {"AMillionValues", {R"({"x": [0)", {",1", 2 * kMillion}, "], " + kBpe}, "more than 1048576 values"},
        {"AReplaceThatExplodes",
         {R"({"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": ")",
          {"x", 1 << 20},
          R"("}, )" + kBpe},
         "replacing makes"},
        {"AReplaceThatNeverEnds",
         {R"({"normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}, )" + kBpe},
         "too many steps"},
        {"APatternOf1MB",
         {R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": ")",
          {"a", 1 << 20},
          R"("}, "behavior": "Isolated"}, )" + kBpe},
         "the limit is 4096"},
        {"AnIdThatIsFarOff",
         {R"({"model": {"type": "BPE", "vocab": {"a": 1000000000000000000}, "merges": []}})"},
         "ids go from 0"},
        {"AMillionTokensAndAWrongOne",
         {R"({"model": {"type": "Unigram", "vocab": [)", {R"(["t", 0.5], )", kMillion}, R"("x"]}})"},
         "entries must be"},
    }),
    name_of_case);

class HostileTokenizerConfig : public HostileFile {};

TEST_P(HostileTokenizerConfig, IsRefused) {
  put("model/tokenizer.json", {"{" + kBpe});
  put("model/tokenizer_config.json", GetParam().file);
  expect_refused(dml({"tokenize", "--model", at("model"), "--text", "a b"}), 2,
                 {at("model/tokenizer_config.json"), GetParam().says});
}

INSTANTIATE_TEST_SUITE_P(Table, HostileTokenizerConfig,
                         testing::ValuesIn(std::vector<Hostile>{
                             {"Empty", {""}, "not valid JSON"},
                             {"BlanksOf64MB", {{" ", 64 << 20}}, "the limit is"},
                             {"BlanksOf3MB", {{" ", 3 << 20}}, "not valid JSON"},
                             {"ATextOf3MBThatIsCutOff", {R"({"x": ")", {"x", 3 << 20}}, "not valid JSON"},
                             {"ATemplateOf3MB", {R"({"chat_template": ")", {"x", 3 << 20}, "\"}"}, "the limit is"},
                         }),
                         name_of_case);

// ---- tokenizer.model

class HostileTokenizerModel : public HostileFile {};

TEST_P(HostileTokenizerModel, IsRefused) {
  put("model/tokenizer.model", GetParam().file);
  expect_refused(dml({"tokenize", "--model", at("model"), "--text", "a b"}), 2,
                 {at("model/tokenizer.model"), GetParam().says});
}

// Field 1 with one byte of length: a piece {1: "<unk>", 3: unknown} or {1: "a"}.
const std::string kUnknown = "\x0a\x09\x0a\x05<unk>\x18\x02", kPiece = "\x0a\x03\x0a\x01x";

INSTANTIATE_TEST_SUITE_P(
    Table, HostileTokenizerModel,
    testing::ValuesIn(std::vector<Hostile>{
        {"Empty", {""}, "no pieces"},
        {"CutOff", {kUnknown, "\x0a\x7f\x0a"}, "are left"},
        {"ANumberWithoutEnd", {{"\xff", 12}}, "more than 10 bytes"},
        {"APieceOf10MB", {kUnknown, "\x0a\x85\x80\x80\x05\x0a\x80\x80\x80\x05", {"x", 10 << 20}}, "the limit is 4096"},
        {"ThreeMillionPieces", {kUnknown, {kPiece, 3 * kMillion}}, "more than 2097152 pieces"},
        {"TenMillionPieces", {kUnknown, {kPiece, 10 * kMillion}}, "the limit is"},
        {"HalfAMillionTimesTheSamePiece", {kUnknown, {kPiece, kMillion / 2}}, "occurs twice"},
    }),
    name_of_case);

// ---- datasets

class HostileDataset : public HostileFile {};

TEST_P(HostileDataset, IsRefused) {
  put("rows.jsonl", GetParam().file);
  expect_refused(dml({"preprocess", recipe("r.yml", tiny_model())}), 2, {at("rows.jsonl"), GetParam().says});
}

const std::string kRow = "{\"instruction\": \"a\", \"output\": \"b\"}\n";

INSTANTIATE_TEST_SUITE_P(
    Table, HostileDataset,
    testing::ValuesIn(std::vector<Hostile>{
        {"Empty", {""}, "empty"},
        {"BlankLines", {{"\n", 8 << 20}}, "no rows"},
        {"CutOff", {kRow, R"({"instruction": "a", "outp)"}, "rows.jsonl:2"},
        {"NoObject", {kRow, "17\n"}, "rows.jsonl:2: a row must be an object"},
        {"ARowOf64MB",
         {kRow, R"({"instruction": ")", {"x", 64 << 20}, "\", \"output\": \"b\"}\n"},
         "rows.jsonl:2: the row has more than 8 MiB"},
        {"ALongRowWithoutAnswer",
         {kRow, R"({"instruction": ")", {"word ", 3 << 19}, "\"}\n"},
         "rows.jsonl:2: the row has no 'output'"},
        {"ALongRowOfLines",
         {kRow, R"({"instruction": ")", {"word\\n", 5 << 18}, "\"}\n"},
         "rows.jsonl:2: the row has no 'output'"},
        {"ALongRowThatIsCutOff",
         {kRow, R"({"instruction": ")", {"word ", 3 << 19}, "\n"},
         "rows.jsonl:2: not valid JSON"},
        {"ALongRowOfLinesThatIsWrong",
         {kRow, R"({"instruction": ")", {"word\\n", 5 << 18}, "\"} x\n"},
         "rows.jsonl:2: not valid JSON"},
        {"AMillionNumbers",
         {kRow, R"({"instruction": [0)", {", 1", 2 * kMillion}, "], \"output\": \"b\"}\n"},
         "rows.jsonl:2: more than 524288 values"},
        {"AnArrayOf64MBInOneElement", {"[", {"[1, 2, 3], ", 6 << 20}}, "rows.jsonl, row 1"},
        {"VeryDeep", {{"{\"a\":", 100000}, "\n"}, "rows.jsonl:1: nested deeper"},
        {"VeryWide", {"{", {R"("k": 1, )", kMillion}, "\"z\": 1}\n"}, "given twice"},
        {"BytesThatAreNotUtf8", {kRow, "{\"instruction\": \"\xff\xfe\", \"output\": \"b\"}\n"}, "rows.jsonl:2"},
        {"ALoneSurrogate", {kRow, "{\"instruction\": \"\\ud800\", \"output\": \"b\"}\n"}, "rows.jsonl:2"},
        {"AWrongRowBehindManyGoodOnes",
         {{kRow, 50000}, "{\"instruction\": \"a\"}\n"},
         "rows.jsonl:50001: the row has no 'output'"},
        {"AnArrayWithoutEnd", {"[", {R"({"instruction": "a", "output": "b"}, )", 50000}}, "the array is not closed"},
        {"EveryRowTooLong",
         {{"{\"instruction\": \"a\", \"output\": \"" + std::string(100000, 'y') + "\"}\n", 100}},
         "longer than sequence_len"},
        {"NothingToLearn", {{"{\"instruction\": \"a\", \"output\": \"\"}\n", 1000}}, "rows.jsonl"},
    }),
    name_of_case);

// ---- chat templates

class HostileTemplate : public HostileFile {};

TEST_P(HostileTemplate, IsRefused) {
  put("t.jinja", GetParam().file);
  write("m.json", R"([{"role": "user", "content": "a"}])");
  expect_refused(dml({"template", "--template", at("t.jinja"), "--messages", at("m.json")}), 2,
                 {at("t.jinja"), GetParam().says});
}

INSTANTIATE_TEST_SUITE_P(
    Table, HostileTemplate,
    testing::ValuesIn(std::vector<Hostile>{
        {"NoTemplate", {"{{ 1 + }}"}, "t.jinja:1:8: expected an expression"},
        {"TooLong", {{"x", 300 << 10}}, "the limit is"},
        {"VeryDeep", {"{{ ", {"(", 100000}, {")", 100000}, " }}"}, "nested too deeply"},
        {"ALoopWithoutEnd",
         {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"},
         "too much work"},
        {"ARangeTooFar", {"{{ range(10**12) }}"}, "Range too big"},
        {"AMacroThatCallsItself", {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"}, "recursion"},
        {"ATextTimesABillion", {"{{ 'x' * 10**9 }}"}, "16 MiB"},
        {"AListTimesABillion", {"{{ [0] * 10**9 }}"}, "a list of more than"},
        {"ATextThatDoubles",
         {"{% set ns = namespace(s='xx') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"},
         "24 MiB"},
        {"ManyLongTexts",
         {"{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = ns.s + ['x' * 1000000 ~ i] %}{% "
          "endfor %}"},
         "24 MiB"},
        {"AMillionWords", {"{{ ('a ' * 1000000).split() | length }}"}, "24 MiB"},
        {"ADictThatGrows",
         {"{% set ns = namespace(s={}) %}{% for i in range(99999) %}{% set ns.s = dict(ns.s, **{i|string: i}) %}{% "
          "endfor %}"},
         "too much work"},
        {"ListsThatHoldEachOther",
         {"{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = "
          "[ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}"},
         "too much work"},
        {"OutputWithoutEnd", {"{% for i in range(9999) %}{{ 'x' * 99999 }}{% endfor %}"}, "16 MiB"},
        {"AWidthOfABillion", {"{{ '%0999999999d' % 1 }}"}, "width"},
        {"ThePythonBelow", {"{{ ''.__class__.__mro__ }}"}, "no attribute '__class__'"},
        {"AnotherFile", {"{% include 'secrets' %}"}, "'include' is not supported"},
        {"ItsOwnRefusal", {"{{ raise_exception('only ' ~ 2) }}"}, "t.jinja:1:4: only 2"},
    }),
    name_of_case);

class HostileMessages : public HostileFile {};

TEST_P(HostileMessages, AreRefused) {
  put("m.json", GetParam().file);
  write("t.jinja", "{{ messages }}");
  expect_refused(dml({"template", "--template", at("t.jinja"), "--messages", at("m.json")}), 2,
                 {at("m.json"), GetParam().says});
}

INSTANTIATE_TEST_SUITE_P(
    Table, HostileMessages,
    testing::ValuesIn(std::vector<Hostile>{
        {"Empty", {""}, "not valid JSON"},
        {"NoList", {"17"}, "must be a list"},
        {"VeryDeep", {{"[", kMillion}}, "nested deeper"},
        {"TooLarge", {R"([{"role": "user", "content": ")", {"a", 100 << 20}, "\"}]"}, "the limit is"},
        {"LongAndCutOff", {R"([{"role": "user", "content": ")", {"a", 3 << 20}}, "not valid JSON"},
        {"LongAndBlank", {{" ", 3 << 20}}, "not valid JSON"},
    }),
    name_of_case);

}  // namespace
}  // namespace dml::e2e
