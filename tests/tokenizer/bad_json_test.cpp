// Every way a tokenizer.json, or what lies beside it, can be wrong: one clear line, soon, and little memory.
#include <fmt/format.h>

#include "core/error.h"
#include "support.h"

namespace dml {
namespace {

// {"model": {...}} with single quotes for double ones, for readability here.
std::string quoted(std::string s) {
  std::replace(s.begin(), s.end(), '\'', '"');
  return s;
}
std::string with_model(const std::string& model, const std::string& more = "") {
  return quoted("{" + more + "'model': " + model + "}");
}
std::string bpe(const std::string& more = "", const std::string& vocabulary = "'a': 0, 'b': 1, 'ab': 2",
                const std::string& merges = "['a b']") {
  return with_model("{'type': 'BPE', 'vocab': {" + vocabulary + "}, 'merges': " + merges + "}", more);
}
std::string stage(const std::string& kind, const std::string& spec) { return bpe("'" + kind + "': " + spec + ", "); }
std::string nested(const std::string& kind, const std::string& list, int depth) {
  std::string out = "{'type': 'Lowercase'}";
  for (int i = 0; i < depth; ++i) out = "{'type': 'Sequence', '" + list + "': [" + out + "]}";
  return stage(kind, out);
}

// A list of so many equal entries.
std::string repeated(const std::string& entry, int count) {
  std::string out = entry;
  for (int i = 1; i < count; ++i) out += ", " + entry;
  return out;
}

struct Bad {
  const char* what;
  std::string json, says;
};
class BadTokenizerJson : public testing::TestWithParam<Bad> {};

TEST_P(BadTokenizerJson, IsAnErrorOfOneLine) {
  Folder folder({{"tokenizer.json", GetParam().json}});
  try {
    load_tokenizer(folder.path())->encode("a b aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab");
    FAIL() << GetParam().what;
  } catch (const UserError& e) {
    std::string text = e.what();
    EXPECT_NE(text.find(GetParam().says), text.npos) << GetParam().what << ": " << text;
    EXPECT_EQ(text.find('\n'), text.npos) << text;
    EXPECT_NE(text.find("tokenizer.json"), text.npos) << text;
    EXPECT_LT(text.size(), 500u);
  }
}

const std::string kSpecials = "'special_tokens': {'<s>': {'id': '<s>', 'ids': [9]}}";
INSTANTIATE_TEST_SUITE_P(
    Table, BadTokenizerJson,
    testing::ValuesIn(std::vector<Bad>{
        {"empty", "", "not valid JSON"},
        {"cut off", "{\"model\": {\"vocab\": {\"a\": 0", "not valid JSON"},
        {"a list", "[]", "must be an object"},
        {"no model", "{}", "'model' is missing"},
        {"a model that is a text", quoted("{'model': 'x'}"), "'model' is missing"},
        {"no vocabulary", with_model("{'type': 'BPE', 'merges': []}"), "vocab is missing"},
        {"no merges", with_model("{'type': 'BPE', 'vocab': {'a': 0}}"), "merges is missing"},
        {"an unknown model", with_model("{'type': 'BPEE', 'vocab': {'a': 0}, 'merges': []}"), "did you mean 'BPE'"},
        {"a key twice", quoted("{'model': {}, 'model': {}}"), "given twice"},
        {"an id twice", bpe("", "'a': 0, 'b': 0"), "both 'a' and 'b'"},
        {"a token twice", bpe("", "'a': 0, 'a': 1"), "occurs twice"},
        {"a negative id", bpe("", "'a': -1"), "id -1"},
        {"id 2^31", bpe("", "'a': 2147483648"), "id 2147483648"},
        {"id 1e18", bpe("", "'a': 1000000000000000000"), "ids go from 0"},
        {"an id of 1e400", bpe("", "'a': 1e400"), "tokenizer.json"},
        {"a fractional id", bpe("", "'a': 0.5"), "whole number"},
        {"an id that is a text", bpe("", "'a': 'b'"), "tokenizer.json"},
        {"an id that is a list", bpe("", "'a': [1]"), "whole number"},
        {"a token of 1 MB", bpe("", "'" + std::string(1 << 20, 'x') + "': 0"), "the limit is 65536"},
        {"a token of 10 MB", bpe("", "'" + std::string(10 << 20, 'x') + "': 0"), "4 MiB without a string"},
        {"bytes that are not UTF-8", bpe("", "'\xff': 0"), "not valid JSON"},
        {"a lone surrogate", bpe("", "'\\ud800': 0"), "not valid JSON"},
        {"a merge of one part", bpe("", "'a': 0", "['a']"), "merge 0"},
        {"a merge of three parts", bpe("", "'a': 0", "['a a a']"), "merge 0"},
        {"a pair of one", bpe("", "'a': 0", "[['a']]"), "merge 0"},
        {"a pair of three", bpe("", "'a': 0", "[['a', 'a', 'a']]"), "merge"},
        {"a merge that is a number", bpe("", "'a': 0", "[1]"), "merge 0"},
        {"a pair of pairs", bpe("", "'a': 0", "[[['a', 'a']]]"), "merge 0"},
        {"a merge of an unknown half", bpe("", "'a': 0", "['a z']"), "'z' is not in the vocabulary"},
        {"a merge to an unknown token", bpe("", "'a': 0, 'b': 1", "['a b']"), "'ab' is not in the vocabulary"},
        {"an unk_token that is missing",
         with_model("{'type': 'BPE', 'unk_token': '<u>', 'vocab': {'a': 0}, 'merges': []}"), "'<u>' is not"},
        {"dropout 2", with_model("{'type': 'BPE', 'dropout': 2.0, 'vocab': {'a': 0}, 'merges': []}"), "dropout"},
        {"a prefix longer than the token",
         with_model(
             "{'type': 'BPE', 'continuing_subword_prefix': '####', 'vocab': {'a': 0, 'b': 1}, 'merges': ['a b']}"),
         "continuing_subword_prefix"},
        {"unigram without scores", with_model("{'type': 'Unigram', 'vocab': {'a': 0}}"), "[token, score]"},
        {"unigram with a text for a score", with_model("{'type': 'Unigram', 'vocab': [['a', 'b']]}"), "score"},
        {"unigram unk_id out of range", with_model("{'type': 'Unigram', 'unk_id': 7, 'vocab': [['a', 0.0]]}"),
         "unk_id is 7"},
        {"unigram with an empty token", with_model("{'type': 'Unigram', 'vocab': [['', 0.0]]}"), "is empty"},
        {"word piece of endless words",
         with_model("{'type': 'WordPiece', 'max_input_chars_per_word': 1000000, 'vocab': {'a': 0}}"),
         "max_input_chars"},
        {"an added token without text", bpe("'added_tokens': [{'id': 5, 'content': ''}], "), "no text"},
        {"an added token without id", bpe("'added_tokens': [{'content': 'x'}], "), "id -1"},
        {"an added token with a huge id", bpe("'added_tokens': [{'id': 2147483647, 'content': 'x'}], "),
         "id 2147483647"},
        {"an added token over a piece", bpe("'added_tokens': [{'id': 1, 'content': 'x'}], "), "'b' in the vocabulary"},
        {"two added tokens with one id",
         bpe("'added_tokens': [{'id': 5, 'content': 'x'}, {'id': 5, 'content': 'y'}], "), "both 'x' and 'y'"},
        {"one added token with two ids",
         bpe("'added_tokens': [{'id': 5, 'content': 'x'}, {'id': 6, 'content': 'x'}], "), "the ids 5 and 6"},
        {"an overlong added token", bpe("'added_tokens': [{'id': 5, 'content': '" + std::string(5000, 'x') + "'}], "),
         "the limit is 4096"},
        {"added tokens that are no list", bpe("'added_tokens': 3, "), "must be a list"},
        {"an unknown normalizer", stage("normalizer", "{'type': 'NFX'}"), "unknown normalizer"},
        {"a normalizer without type", stage("normalizer", "{}"), "has no 'type'"},
        {"a normalizer that is a number", stage("normalizer", "3"), "must be an object"},
        {"a Sequence 10000 deep", nested("normalizer", "normalizers", 10000), "nested deeper"},
        {"a Replace that never ends",
         stage("normalizer", "{'type': 'Replace', 'pattern': {'Regex': '(a+)+$'}, 'content': ''}"), "too many steps"},
        {"a Replace that explodes",
         stage("normalizer",
               "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': '" + std::string(1 << 20, 'x') + "'}"),
         "replacing makes"},
        {"six of them that explode together",
         stage("normalizer", "{'type': 'Sequence', 'normalizers': [" +
                                 repeated("{'type': 'Replace', 'pattern': {'String': 'a'}, "
                                          "'content': 'aaaaaaaaaaaaaaaa'}",
                                          6) +
                                 "]}"),
         "replacing makes"},
        {"a Replace without pattern", stage("normalizer", "{'type': 'Replace', 'content': ''}"), "'pattern' must be"},
        {"a charsmap that is not base64", stage("normalizer", "{'type': 'Precompiled', 'precompiled_charsmap': '!!!'}"),
         "base64"},
        {"a charsmap without trie", stage("normalizer", "{'type': 'Precompiled', 'precompiled_charsmap': 'AAAA'}"),
         "damaged"},
        {"an unknown pre-tokenizer", stage("pre_tokenizer", "{'type': 'Bytelevel'}"), "did you mean 'ByteLevel'"},
        {"a Split that is not a regular expression",
         stage("pre_tokenizer", "{'type': 'Split', 'pattern': {'Regex': '(a'}, 'behavior': 'Isolated'}"),
         "regular expression"},
        {"a Split of 1 MB",
         stage("pre_tokenizer",
               "{'type': 'Split', 'pattern': {'Regex': '" + std::string(1 << 20, 'a') + "'}, 'behavior': 'Isolated'}"),
         "the limit is 4096"},
        {"nested quantifiers",
         stage("pre_tokenizer", "{'type': 'Split', 'pattern': {'Regex': '(a|aa)+[cd]'}, 'behavior': 'Isolated'}"),
         "too many steps"},
        {"an unknown behavior",
         stage("pre_tokenizer", "{'type': 'Split', 'pattern': {'String': 'a'}, 'behavior': 'Isolate'}"),
         "did you mean 'Isolated'"},
        {"a length of zero", stage("pre_tokenizer", "{'type': 'FixedLength', 'length': 0}"), "at least 1"},
        {"a Sequence that is not a list", stage("pre_tokenizer", "{'type': 'Sequence', 'pretokenizers': 3}"),
         "must be a list"},
        {"a prepend_scheme of its own", stage("pre_tokenizer", "{'type': 'Metaspace', 'prepend_scheme': 'often'}"),
         "prepend_scheme"},
        {"a Metaspace without a mark", stage("pre_tokenizer", "{'type': 'Metaspace', 'replacement': ''}"),
         "'replacement' must be one character"},
        {"a Metaspace with a mark of two characters",
         stage("pre_tokenizer", "{'type': 'Metaspace', 'replacement': '▁▁'}"),
         "'replacement' must be one character, is '▁▁'"},
        {"a delimiter of two characters", stage("pre_tokenizer", "{'type': 'CharDelimiterSplit', 'delimiter': 'ab'}"),
         "'delimiter' must be one character"},
        {"a decoder's Metaspace without a mark", stage("decoder", "{'type': 'Metaspace', 'replacement': ''}"),
         "'replacement' must be one character"},
        {"a Strip of nothing", stage("decoder", "{'type': 'Strip', 'content': '', 'start': 1, 'stop': 0}"),
         "'content' must be one character"},
        {"an unknown decoder", stage("decoder", "{'type': 'ByteFalback'}"), "did you mean 'ByteFallback'"},
        {"a Strip of less than nothing", stage("decoder", "{'type': 'Strip', 'content': ' ', 'start': -1, 'stop': 0}"),
         "'start'"},
        {"an unknown post-processor", stage("post_processor", "{'type': 'Template'}"), "unknown post-processor"},
        {"a template that names no token",
         stage("post_processor",
               "{'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': '<x>'}}], 'special_tokens': {}}"),
         "'<x>'"},
        {"a template with an unknown id",
         stage("post_processor",
               "{'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': '<s>'}}], " + kSpecials + "}"),
         "token id 9"},
        {"a template of nothing known",
         stage("post_processor", "{'type': 'TemplateProcessing', 'single': [{'Text': 1}], 'special_tokens': {}}"),
         "SpecialToken or a Sequence"},
        {"a cls that is not a pair", stage("post_processor", "{'type': 'BertProcessing', 'cls': 'x', 'sep': 'y'}"),
         "'cls'"},
    }));

TEST(TokenizerJson, AWordThatCannotBeSpelledIsAnError) {
  for (const char* model : {"{'type': 'WordLevel', 'vocab': {'a': 0}}", "{'type': 'WordPiece', 'vocab': {'a': 0}}",
                            "{'type': 'Unigram', 'vocab': [['a', 0.0]]}"}) {
    Folder folder({{"tokenizer.json", with_model(model)}});
    auto t = load_tokenizer(folder.path());
    EXPECT_EQ(t->encode("a").ids.size(), 1u);
    EXPECT_THROW(t->encode("b"), UserError);
  }
}

TEST(TokenizerJson, AHundredThousandAddedTokensAreTooMany) {
  std::string list;
  for (int i = 0; i < 100000; ++i)
    list += fmt::format("{}{{\"id\": {}, \"content\": \"<{}>\"}}", i ? "," : "", i + 10, i);
  Folder folder({{"tokenizer.json", "{\"added_tokens\": [" + list + "], " + bpe().substr(1)}});
  EXPECT_THROW(load_tokenizer(folder.path()), UserError);
}

struct Good {
  const char* what;
  std::string json;
};
class OddTokenizerJson : public testing::TestWithParam<Good> {};
TEST_P(OddTokenizerJson, StillLoadsAndEncodes) {
  Folder folder({{"tokenizer.json", GetParam().json}});
  EXPECT_FALSE(load_tokenizer(folder.path())->encode("ab").ids.empty());
}
INSTANTIATE_TEST_SUITE_P(
    Table, OddTokenizerJson,
    testing::ValuesIn(std::vector<Good>{
        {"gaps between ids", bpe("", "'a': 0, 'b': 100, 'ab': 1000")},
        {"merges as pairs", bpe("", "'a': 0, 'b': 1, 'ab': 2", "[['a', 'b']]")},
        {"a pair with spaces", bpe("", "'a': 0, 'b': 1, ' ': 2, 'a ': 3", "[['a', ' ']]")},
        {"merges before the vocabulary", with_model("{'merges': ['a b'], 'vocab': {'a': 0, 'b': 1, 'ab': 2}}")},
        {"byte fallback without the bytes",
         with_model("{'type': 'BPE', 'byte_fallback': true, 'vocab': {'a': 0, 'b': 1}, 'merges': []}")},
        {"an empty token", bpe("", "'a': 0, 'b': 1, 'ab': 2, '': 3")},
        {"a byte-level one without most bytes", bpe("'pre_tokenizer': {'type': 'ByteLevel'}, ")},
        {"truncation with a stride too long", bpe("'truncation': {'max_length': 2, 'stride': 9}, ")},
        {"look-behind",
         stage("pre_tokenizer", "{'type': 'Split', 'pattern': {'Regex': '(?<=a)b'}, 'behavior': 'Isolated'}")},
        {"a back-reference",
         stage("pre_tokenizer", "{'type': 'Split', 'pattern': {'Regex': '(a)\\\\1'}, 'behavior': 'Isolated'}")},
    }));

TEST(BesideTheTokenizer, EveryWrongConfigIsNamed) {
  for (auto [file, text, says] : std::vector<std::array<const char*, 3>>{
           {"tokenizer_config.json", "[]", "must be an object"},
           {"tokenizer_config.json", "{\"bos_token\": 3}", "'bos_token' must be"},
           {"tokenizer_config.json", "{\"bos_token\": {\"content\": 3}}", "'content' must be"},
           {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"x\": {\"content\": \"y\"}}}", "token id"},
           {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"-1\": {\"content\": \"y\"}}}", "token id"},
           {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"99999999999\": {\"content\": \"y\"}}}", "token id"},
           {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"7\": {}}}", "'content' is empty"},
           {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"1\": {\"content\": \"y\"}}}", "in the vocabulary"},
           {"tokenizer_config.json", "{\"chat_template\": 3}", "chat_template"},
           {"tokenizer_config.json",
            "{\"chat_template\": [{\"name\": \"a\", \"template\": \"\"}, {\"name\": \"a\", \"template\": \"\"}]}",
            "given twice"},
           {"tokenizer_config.json", "{\"legacy\": \"yes\"}", "'legacy'"},
           {"special_tokens_map.json", "3", "must be an object"},
           {"special_tokens_map.json", "{\"additional_special_tokens\": 3}", "must be a list"},
           {"added_tokens.json", "{\"a\": \"b\"}", "token id"},
           {"added_tokens.json", "[", "not valid JSON"},
           {"chat_template.jinja", "\xff", "UTF-8"}}) {
    Folder folder({{"tokenizer.json", bpe()}, {file, text}});
    try {
      load_tokenizer(folder.path());
      FAIL() << file << ": " << text;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(file), std::string::npos) << e.what();
    }
  }
}

TEST(BesideTheTokenizer, AFolderWithoutTokenizerSaysWhatIsExpected) {
  Folder folder({{"vocab.json", std::string("{}")}});
  try {
    load_tokenizer(folder.path());
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("merges.txt is missing"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace dml
