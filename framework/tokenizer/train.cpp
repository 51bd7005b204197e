// libsentencepiece's trainer, behind checks and in a separate process.
//
// The library reports most mistakes as a status, but ends the process on some (an empty alphabet, words of more than
// 65535 characters, counts that vanish). So texts are first checked and split into short sentences, and a child process
// trains; it sends the model or an error message through a pipe.
#include "tokenizer/train.h"

#include <sentencepiece_trainer.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>
#include <unordered_map>

#include "core/closest.h"
#include "core/descriptor.h"
#include "core/error.h"
#include "core/utf8.h"
#include "tokenizer/sentencepiece_model.h"

namespace dml {
namespace {

constexpr std::size_t kLongestSentence = 4096;  // bytes; the library's words are indexed with 16 bits
constexpr std::int64_t kLargestVocabulary = 1'000'000;
const std::string kReserved = "\xe2\x96\x85";  // U+2585: the library skips sentences with it

bool visible(char32_t c) {
  const bool space = c <= 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0xad || (c >= 0x2000 && c <= 0x200f) ||
                     (c >= 0x2028 && c <= 0x202f) || c == 0x2581 || c == 0x2585 || c == 0x3000 || c == 0xfeff ||
                     c >= 0xfffd;
  return !space;
}

// Calls each(sentence) for the lines of a text; long lines are split at spaces.
template <class Each>
void cut_sentences(std::string_view text, Each&& each) {
  while (!text.empty()) {
    const std::string_view near = text.substr(0, kLongestSentence + 1);
    std::size_t end = std::min({near.find_first_of(std::string_view("\n\r\0", 3)), near.find(kReserved), near.size()});
    if (end > kLongestSentence) {
      end = text.rfind(' ', kLongestSentence);
      if (end == text.npos || end == 0) {
        end = kLongestSentence;
        while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
      }
    }
    if (end > 0) each(text.substr(0, end));
    text.remove_prefix(end);
    if (text.starts_with(kReserved)) text.remove_prefix(kReserved.size());
    else if (!text.empty() && (text[0] == '\n' || text[0] == '\r' || text[0] == '\0')) text.remove_prefix(1);
  }
}

// Selects the texts to train on if there are too many bytes: every n-th, where n may be fractional.
class Sampler {
 public:
  Sampler(std::size_t total, std::size_t wanted)
      : share_(total > wanted ? static_cast<double>(wanted) / static_cast<double>(total) : 1) {}
  bool take() { return static_cast<std::int64_t>(static_cast<double>(++seen_) * share_) > taken_ && ++taken_; }

 private:
  double share_;
  std::int64_t seen_ = 0, taken_ = 0;
};

struct Survey {
  std::int64_t texts = 0;
  std::size_t bytes = 0;
  bool visible = false;  // whether some character can become a part of a piece
};

// Ignores texts that are tokens already.
bool has_visible(std::string_view text, const std::vector<std::string>& tokens) {
  for (std::size_t i = 0; i < text.size();) {
    std::size_t longest = 0;
    for (auto& token : tokens)
      if (text.substr(i).starts_with(token)) longest = std::max(longest, token.size());
    if (longest > 0) {
      i += longest;
    } else if (visible(next_code_point(text, i))) {
      return true;
    }
  }
  return false;
}

Survey survey(const TokenizerTraining& options, NextText next) {
  Survey out;
  for (std::string text; next(text);) {
    ++out.texts;
    out.bytes += text.size();
    if (auto bad = find_invalid_utf8(text); bad != text.npos)
      throw UserError("text {}: byte {} is not UTF-8", out.texts, bad + 1);
    if (!out.visible) out.visible = has_visible(text, options.tokens);
  }
  if (out.texts == 0 || out.bytes == 0) throw UserError("there is no text to train a tokenizer on");
  if (!out.visible)
    throw UserError("the text holds nothing but white space{}: there is nothing to train a tokenizer on",
                    options.tokens.empty() ? "" : " and the given tokens");
  return out;
}

class Sentences : public sentencepiece::SentenceIterator {
 public:
  Sentences(NextText next, Sampler sampler) : next_(std::move(next)), sampler_(sampler) { fill(); }
  bool done() const override { return at_ == queue_.size(); }
  void Next() override {
    ++at_;
    fill();
  }
  const std::string& value() const override { return queue_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void fill() {
    while (at_ == queue_.size()) {
      queue_.clear();
      at_ = 0;
      if (!next_(text_)) return;
      if (sampler_.take()) cut_sentences(text_, [&](std::string_view s) { queue_.emplace_back(s); });
    }
  }
  NextText next_;
  Sampler sampler_;
  std::string text_;
  std::vector<std::string> queue_;
  std::size_t at_ = 0;
};

// A list in the library's format: quoted, with doubled quotes.
std::string quoted_list(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) {
    out += out.empty() ? "\"" : ",\"";
    for (char c : item) out += c == '"' ? "\"\"" : std::string(1, c);
    out += '"';
  }
  return out;
}

// The spelling in pieces: the mark U+2581 for a space.
std::vector<std::string> spelled(std::vector<std::string> tokens) {
  for (auto& token : tokens)
    for (std::size_t at = token.find(' '); at != token.npos; at = token.find(' ', at)) token.replace(at, 1, "\u2581");
  return tokens;
}

std::vector<std::string> plain_tokens(const TokenizerTraining& o) {
  std::vector<std::string> out = o.tokens;
  if (!o.byte_fallback)  // otherwise no token could represent a newline
    for (const char* control : {"\n", "\t"})
      if (std::ranges::find(out, control) == out.end()) out.emplace_back(control);
  return out;
}

std::unordered_map<std::string, std::string> arguments(const TokenizerTraining& o) {
  std::unordered_map<std::string, std::string> out{
      {"model_type", o.model == SubwordModel::bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(o.vocab_size)},
      {"byte_fallback", o.byte_fallback ? "true" : "false"},
      {"split_digits", o.split_digits ? "true" : "false"},
      {"character_coverage", fmt::format("{}", o.character_coverage)},
      {"normalization_rule_name", o.normalization == "none" ? "identity" : o.normalization},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"max_sentence_length", std::to_string(16 * kLongestSentence)},
      {"hard_vocab_limit", "false"},
      {"num_threads", "16"},  // determines the order of sums, so fixed on all machines
      {"unk_piece", o.unk},
      {"bos_piece", o.bos},
      {"eos_piece", o.eos},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", o.pad ? "3" : "-1"},
      {"minloglevel", "3"}};
  if (o.pad) out["pad_piece"] = *o.pad;
  if (!o.special.empty()) out["control_symbols"] = quoted_list(o.special);
  if (auto tokens = plain_tokens(o); !tokens.empty()) out["user_defined_symbols"] = quoted_list(spelled(tokens));
  return out;
}

// ---- the child process

// IoError when the pipe cannot be read.
std::string receive_all(int fd, const std::string& what) {
  std::string out;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw IoError(what, "cannot read");
    if (n == 0) return out;
    out.append(buffer, static_cast<std::size_t>(n));
  }
}

// Trains in the child process; returns 'M' and the model, or 'E' and an error message.
std::string train_here(const TokenizerTraining& options, const OpenTexts& open, Sampler sampler) {
  try {
    Sentences sentences(open(), sampler);
    std::string model;
    auto status = sentencepiece::SentencePieceTrainer::Train(arguments(options), &sentences, &model);
    return status.ok() ? "M" + model : "E" + status.ToString();
  } catch (const std::bad_alloc&) {
    return "Eout of memory";
  } catch (const std::exception& e) {
    return std::string("E") + e.what();
  }
}

std::string train_in_child(const TokenizerTraining& options, const OpenTexts& open, Sampler sampler) {
  const std::string what = "the tokenizer's training";
  int ends[2];
  if (pipe(ends) != 0) throw IoError(what, "cannot create a pipe");
  Descriptor from(ends[0]), to(ends[1]);
  const pid_t child = fork();
  if (child < 0) throw IoError(what, "cannot start a process");
  if (child == 0) {
    from.reset();
    if (!freopen("/dev/null", "w", stderr)) close(STDERR_FILENO);  // the library's messages name its own source lines
    try {
      const std::string answer = train_here(options, open, sampler);
      write_all(to.get(), answer.data(), answer.size(), what);
    } catch (const std::exception&) {
      _exit(1);  // the parent says what that means
    }
    _exit(0);
  }
  to.reset();
  std::string answer = receive_all(from.get(), what);
  int how = 0;
  while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
  }
  if (!(WIFEXITED(how) && WEXITSTATUS(how) == 0)) answer.clear();  // whatever arrived is a part
  if (answer.empty() && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL)
    throw UserError("training the tokenizer was killed, probably for lack of memory; train on less text (--sample-mb)");
  if (answer.empty())
    throw UserError("libsentencepiece cannot train on this text; use another --vocab-size, or --model bpe");
  return answer;
}

[[noreturn]] void fail(const TokenizerTraining& options, const std::string& message) {
  if (auto at = message.find("smaller than required_chars"); at != message.npos) {
    auto versus = message.find(" vs ", at);
    const long least = versus == message.npos ? 0 : std::strtol(message.c_str() + versus + 4, nullptr, 10);
    throw UserError(
        "--vocab-size {} is too small: the alphabet of this text and the special tokens alone are {}; use at least "
        "{}{}",
        options.vocab_size, least, least + 1,
        options.character_coverage > 0.98 ? ", or a smaller --character-coverage" : "");
  }
  throw UserError("the tokenizer cannot be trained: {}", message);
}

}  // namespace

const std::vector<std::pair<std::string, std::string>>& normalization_rules() {
  static const std::vector<std::pair<std::string, std::string>> rules{
      {"none", "text as it is"},
      {"nfkc", "Unicode NFKC: compatibility forms such as ligatures and full-width letters become plain ones"},
      {"nfkc_cf", "NFKC and lower case"},
      {"nmt_nfkc", "NFKC; control characters and all kinds of white space become a space"},
      {"nmt_nfkc_cf", "nmt_nfkc and lower case"}};
  return rules;
}

std::vector<std::string> problems_of(const TokenizerTraining& o) {
  std::vector<std::string> out, rules;
  for (auto& [name, help] : normalization_rules()) rules.push_back(name);
  if (std::ranges::find(rules, o.normalization) == rules.end())
    out.push_back(fmt::format("unknown --normalization '{}'{}", o.normalization, did_you_mean(o.normalization, rules)));
  if (!(o.character_coverage >= 0.98 && o.character_coverage <= 1))
    out.push_back(fmt::format("--character-coverage must be between 0.98 and 1, is {:g}", o.character_coverage));
  std::set<std::string> seen;
  auto check = [&](const char* option, const std::string& token, bool plain) {
    if (token.empty()) out.push_back(fmt::format("{}: a token must not be empty", option));
    else if (token.size() > 512) out.push_back(fmt::format("{}: a token of more than 512 bytes", option));
    else if (token.find('\0') != token.npos || token.find(kReserved) != token.npos ||
             (!plain && token.find_first_of(" \n\t") != token.npos) || find_invalid_utf8(token) != token.npos ||
             token.find("\u2581") != token.npos)
      out.push_back(fmt::format("{}: '{}' holds a character that a token cannot have", option, escape_controls(token)));
    else if (token == "\t" && plain && !o.byte_fallback) return;  // added separately
    else if (!seen.insert(token).second)
      out.push_back(fmt::format("{}: the token '{}' is given twice", option, escape_controls(token)));
  };
  check("--unk", o.unk, false);
  check("--bos", o.bos, false);
  check("--eos", o.eos, false);
  if (o.pad) check("--pad", *o.pad, false);
  for (auto& token : o.special) check("--special", token, false);
  for (auto& token : o.tokens) check("--token", token, true);
  const auto fixed = static_cast<std::int64_t>(seen.size()) + (o.byte_fallback ? 256 : 2);
  if (o.vocab_size <= fixed || o.vocab_size > kLargestVocabulary)
    out.push_back(fmt::format("--vocab-size must be between {} ({} of these are special tokens{}) and {}, is {}",
                              fixed + 1, fixed, o.byte_fallback ? " and bytes" : "", kLargestVocabulary, o.vocab_size));
  return out;
}

TrainedTokenizer train_tokenizer(const TokenizerTraining& options, const OpenTexts& open, std::size_t sample_bytes) {
  if (auto problems = problems_of(options); !problems.empty()) throw UserError("{}", fmt::join(problems, "\n"));
  const Survey all = survey(options, open());
  const std::string answer = train_in_child(options, open, Sampler(all.bytes, sample_bytes));
  if (answer[0] != 'M') fail(options, answer.substr(1));
  TrainedTokenizer out;
  out.model = answer.substr(1);
  out.size = std::ssize(parse_sentencepiece_model(out.model, "the trained model").pieces);
  out.texts = all.texts;
  out.bytes = all.bytes;
  out.trained = std::min(all.bytes, sample_bytes);
  if (out.size < options.vocab_size)
    throw UserError(
        "--vocab-size {} is too large: this text yields {} tokens at most; use --vocab-size {}, or more text",
        options.vocab_size, out.size, out.size);
  return out;
}

}  // namespace dml
