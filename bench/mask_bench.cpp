// The cost of a constraint per token: mask_bench TOKENIZER_FOLDER [SCHEMA.json TEXT.json …]. Follows texts token by
// token under their schemas, first with empty and then with filled caches; CPU time.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <numeric>

#include "constraint/token_mask.h"
#include "core/files.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace dml;

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Case {
  std::string name, schema, text;
};

std::vector<Case> built_in() {
  std::string rows = "[", wide = R"({"type":"object","properties":{)", names = "{";
  for (int i = 0; i < 40; ++i)
    rows += fmt::format(R"({}{{"id":{},"name":"row number {}","tags":["a","b"],"score":{}.5}})", i ? "," : "", i, i, i);
  for (int i = 0; i < 120; ++i) {
    wide += fmt::format(R"({}"field_{}":{{"type":"string","maxLength":20}})", i ? "," : "", i);
    names += fmt::format(R"({}"field_{}":"value {}")", i ? "," : "", i, i);
  }
  const std::string prose(2000, 'x');
  return {
      {"person",
       R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string","format":"email"}},"required":["name","age"],"additionalProperties":false})",
       R"({"name":"Jane Austen","age":41,"email":"jane@example.org"})"},
      {"list of records",
       R"({"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}},"score":{"type":"number"}},"required":["id","name"]}})",
       rows + "]"},
      {"long string", R"({"type":"object","properties":{"text":{"type":"string"}},"required":["text"]})",
       "{\"text\":\"" + prose + "\"}"},
      {"120 properties", wide + R"(},"additionalProperties":false})", names + "}"},
      {"bounded strings",
       R"({"type":"array","items":{"type":"string","minLength":5,"maxLength":200,"pattern":"^[A-Za-z ]+$"}})",
       R"(["A quick brown fox jumps over the lazy dog","Pack my box with five dozen liquor jugs"])"},
      {"any JSON", R"({"type":"object"})", R"({"a":[1,2,{"b":null}],"c":"d e f","g":{"h":[true,false,1.5]}})"}};
}

std::vector<std::int32_t> tokens_of(const TokenTree& tree, std::string_view text) {
  std::vector<std::int32_t> out;
  while (!text.empty()) {
    out.push_back(tree.longest(text));
    text.remove_prefix(tree.text(out.back()).size());
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc % 2) {
    fmt::print(stderr, "usage: mask_bench TOKENIZER_FOLDER [SCHEMA.json TEXT.json …]\n");
    return 2;
  }
  const auto tokenizer = load_tokenizer(argv[1]);
  std::vector<std::string> texts;
  for (Token id = 0; id < tokenizer->size(); ++id)
    texts.push_back(tokenizer->is_special(id) ? "" : tokenizer->text_bytes(id, false));
  double begin = processor_seconds();
  const auto tree = std::make_shared<const TokenTree>(std::move(texts));
  fmt::print("vocabulary of {} tokens, prefix tree of {} nodes in {:.0f} ms\n", tree->vocabulary(),
             tree->nodes().size(), 1e3 * (processor_seconds() - begin));
  std::vector<Case> cases = built_in();
  if (argc > 2) cases.clear();
  for (int i = 2; i < argc; i += 2) cases.push_back({argv[i], read_file(argv[i]), read_file(argv[i + 1])});
  fmt::print("{:<24} {:>7} {:>12} {:>12} {:>10} {:>10} {:>10} {:>9}\n", "microseconds a mask", "tokens", "compile ms",
             "first", "cold mean", "cold max", "warm mean", "warm max");
  for (const Case& c : cases) {
    begin = processor_seconds();
    std::shared_ptr<Automaton> automaton = schema_automaton(c.schema, c.name, JsonSpace::one);
    TokenConstraint constraint(automaton, tree);
    const double compile = 1e3 * (processor_seconds() - begin);
    const auto ids = tokens_of(*tree, c.text);
    std::vector<double> times[2];
    for (auto& pass : times) {
      auto text = constraint.start();
      for (std::int32_t id : ids) {
        begin = processor_seconds();
        const TokenSet& allowed = constraint.allowed(text);
        const bool may = allowed[static_cast<std::size_t>(id) / 64] >> id % 64 & 1;
        pass.push_back(1e6 * (processor_seconds() - begin));
        if (!may) {
          fmt::print(stderr, "{}: the text does not fit the schema at token {}\n", c.name, pass.size());
          return 1;
        }
        text = constraint.after(text, id);
      }
    }
    auto mean = [](const std::vector<double>& x) {
      return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
    };
    fmt::print("{:<24} {:>7} {:>12.2f} {:>12.0f} {:>10.1f} {:>10.0f} {:>10.2f} {:>9.1f}\n", c.name, ids.size(), compile,
               times[0][0], mean(times[0]), *std::ranges::max_element(times[0]), mean(times[1]),
               *std::ranges::max_element(times[1]));
  }
  return 0;
}
