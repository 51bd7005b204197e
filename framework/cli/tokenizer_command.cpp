// dml tokenizer train: trains a tokenizer on text and writes its directory.
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/log.h"
#include "core/size_text.h"
#include "data/report.h"
#include "pipeline/tokenizer_training.h"
#include "tokenizer/tokenizer.h"

namespace dml {
namespace {

std::vector<std::string> normalization_names() {
  std::vector<std::string> names;
  for (const auto& [name, help] : normalization_rules()) names.push_back(name);
  return names;
}

struct TokenizerTrain {
  std::string action;
  TokenizerRequest request;
  std::optional<SubwordModel> model;
  std::optional<std::string> output, normalization, unk, bos, eos;
  std::optional<std::int64_t> vocab_size, sample_mb;
  std::optional<double> coverage;
  bool no_byte_fallback = false, join_digits = false;
  Options options{
      "tokenizer",
      "tokenizer train FILE|DIR… --output DIR [--vocab-size N] [--model bpe|unigram] …",
      {"dml tokenizer train book.txt --output tokenizer --vocab-size 4000",
       "dml tokenizer train notes/ chat.jsonl --output tokenizer --special '<|im_start|>' --special '<|im_end|>'",
       "dml tokenizer train faq.csv --field Question --field Answer --output tokenizer --model unigram"}};
  TokenizerTrain() {
    options.about(
        "Trains a tokenizer on text with libsentencepiece and writes tokenizer.model, tokenizer.json, "
        "tokenizer_config.json and special_tokens_map.json. Without --normalization, tokenizer.model and "
        "tokenizer.json give the same token ids for every text. The inputs are files and folders: plain text, "
        "Markdown, JSON, JSON lines, CSV and TSV, also packed with gzip or "
        "zstd. The same inputs and options give the same files.");
    options.positional("train", action, "the only action");
    options.positionals("FILE|DIR", request.inputs, "the text, as files and folders", false);
    options.text("output", output, "the new tokenizer directory; also -o", "DIR");
    options.alias("-o", "output");
    options.integer("vocab-size", vocab_size, "number of tokens, special tokens and bytes included (8000)");
    options.choice("model", model, {{"bpe", SubwordModel::bpe}, {"unigram", SubwordModel::unigram}},
                   "bpe (the default), or unigram");
    options.texts("field", request.fields, "use only this field of JSON and CSV rows; may be repeated (all but roles)",
                  "NAME");
    options.texts("special", request.training.special,
                  "a special token, like the markers of a chat template; may be repeated", "TOKEN");
    options.texts("token", request.training.tokens,
                  "a string that is always one token (\\n and \\t are newline and tab); may be repeated", "TOKEN");
    options.flag("no-byte-fallback", no_byte_fallback, "unknown characters become the unknown token, not bytes");
    options.flag("join-digits", join_digits, "numbers may be tokens; otherwise every digit is a token");
    options.number("character-coverage", coverage,
                   "share of the text whose characters get tokens of their own (0.9995)");
    options.choice("normalization", normalization, normalization_names(),
                   "Unicode normalization (none): text as it is, NFKC, or NFKC with other rules");
    options.text("unk", unk, "the unknown token (<unk>)", "TOKEN");
    options.text("bos", bos, "the token at the beginning of a text (<s>)", "TOKEN");
    options.text("eos", eos, "the token at the end of a text (</s>)", "TOKEN");
    options.text("pad", request.training.pad, "a padding token (none)", "TOKEN");
    options.integer("sample-mb", sample_mb, "train on at most N MB of the text, spread evenly over it (1024)");
    options.flag("force", request.force, "replace an existing tokenizer");
  }

  void parse(const std::vector<std::string>& words) {
    options.parse(words);
    if (action != "train") throw UserError("tokenizer: '{}' is unknown; the command is: dml tokenizer train", action);
    TokenizerTraining& t = request.training;
    request.output = output.value_or("");
    t.model = model.value_or(t.model);
    t.vocab_size = vocab_size.value_or(t.vocab_size);
    t.byte_fallback = !no_byte_fallback;
    t.split_digits = !join_digits;
    t.character_coverage = coverage.value_or(t.character_coverage);
    t.normalization = normalization.value_or(t.normalization);
    t.unk = unk.value_or(t.unk), t.bos = bos.value_or(t.bos), t.eos = eos.value_or(t.eos);
    for (auto& token : t.tokens) token = unescaped(token);
    if (sample_mb) {
      if (*sample_mb < 1 || *sample_mb > 100'000) throw UserError("--sample-mb must be between 1 and 100000");
      request.sample_bytes = static_cast<std::size_t>(*sample_mb) << 20;
    }
  }

 private:
  static std::string unescaped(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
      if (next == 'n' || next == 't' || next == '\\') out += next == 'n' ? '\n' : next == 't' ? '\t' : '\\', ++i;
      else out += text[i];
    }
    return out;
  }
};

// A tokenized example sentence.
std::string example_of(const Tokenizer& tokenizer, const std::string& text) {
  std::string out;
  for (Token id : tokenizer.encode(text).ids) out += (out.empty() ? "" : "|") + tokenizer.piece(id);
  return out;
}

int run_tokenizer_train(const std::vector<std::string>& words) {
  TokenizerTrain t;
  t.parse(words);
  const TrainedTokenizer made = make_tokenizer(t.request);
  auto tokenizer = load_tokenizer(t.request.output);
  log_info("{}, {} tokens, from {} of text in {} texts{}",
           t.request.training.model == SubwordModel::bpe ? "BPE" : "unigram", grouped(made.size), size_text(made.bytes),
           grouped(made.texts),
           made.trained < made.bytes ? fmt::format(" ({} of it, spread evenly)", size_text(made.trained)) : "");
  log_info("example: {}", example_of(*tokenizer, "The quick brown fox jumps over 12 lazy dogs."));
  log_info("next: dml init {} DATA writes a recipe that trains a model from scratch with this tokenizer",
           t.request.output);
  print(t.request.output + "\n");
  return 0;
}

}  // namespace

Command tokenizer_command() {
  return {"tokenizer", "trains a tokenizer from text (BPE or unigram)", [] { return TokenizerTrain().options.page(); },
          run_tokenizer_train};
}

}  // namespace dml
