#include "exchange/gguf_vocabulary.h"

#include <algorithm>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/text.h"
#include "exchange/gguf_vocabulary_check.h"
#include "tokenizer/load.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/stages/bpe.h"
#include "tokenizer/stages/json_fields.h"
#include "tokenizer/stages/unigram.h"
#include "tokenizer/text/scanner.h"
#include "tokenizer/text/vocabulary.h"
#include "tokenizer/tokenizer_json.h"

namespace dml {
namespace {

using V = GgufVocabulary;

constexpr const char* kTokenizerFile = "tokenizer.json";

bool looks_special(std::string_view text) {
  for (auto [front, back] : {std::pair{"<|", "|>"}, {"<｜", "｜>"}, {"<unused", ">"}, {"[@", "@]"}})
    if (text.starts_with(front) && text.ends_with(back)) return true;
  return text == "<pad>" || text == "<mask>" || text == "<2mass>";
}

std::string with_spaces(std::string text) { return with_replaced(text, kSpaceMark, " "); }

// Reads the model's own tables: tokenizer.json, or vocab.json with merges.txt.
TokenizerJson read_tables(const std::string& directory) {
  const std::string file = directory + "/tokenizer.json";
  if (file_exists(file)) return parse_tokenizer_json(MappedFile(file).text(), file);
  const std::string vocabulary = directory + "/vocab.json", merges = directory + "/merges.txt";
  TokenizerJson json = parse_tokenizer_json(MappedFile(vocabulary).text(), vocabulary, true);
  parse_merges(read_file(merges, std::size_t{256} << 20), merges, json);
  return json;
}

// The pattern of tokenizer.json's pre-tokenizer, and whether digits are split off first.
struct Splitter {
  std::string pattern;
  bool digits = false;
};

void look_at_splitter(const Json& stage, Splitter& out) {
  if (!stage.is_object()) return;
  const std::string type = json_string(stage, "type", "", kTokenizerFile);
  if (type == "Sequence" && stage.contains("pretokenizers"))
    for (const Json& part : stage["pretokenizers"]) look_at_splitter(part, out);
  if (type == "Digits") out.digits = json_bool(stage, "individual_digits", false, kTokenizerFile);
  if (type == "ByteLevel" && json_bool(stage, "use_regex", true, kTokenizerFile)) out.pattern = Scanner::gpt2_pattern();
  if (type == "Split" && stage.contains("pattern") && stage["pattern"].contains("Regex") &&
      stage["pattern"]["Regex"].is_string())
    out.pattern = stage["pattern"]["Regex"].get<std::string>();
}

std::string charsmap_of(const Json& normalizer) {
  if (!normalizer.is_object()) return {};
  if (json_string(normalizer, "type", "", kTokenizerFile) == "Precompiled")
    return decode_base64(json_string(normalizer, "precompiled_charsmap", "", kTokenizerFile),
                         "tokenizer.json: precompiled_charsmap");
  std::string found;
  if (normalizer.contains("normalizers") && normalizer["normalizers"].is_array())
    for (const Json& part : normalizer["normalizers"])
      if (found.empty()) found = charsmap_of(part);
  return found;
}

class Reader {
 public:
  Reader(const std::string& directory, const ModelSpec& spec, const std::string& source)
      : directory_(directory), source_(source), spec_(spec), pipeline_(load_pipeline(directory)) {}

  V read() {
    const bool json = file_exists(directory_ + "/tokenizer.json") || file_exists(directory_ + "/vocab.json");
    const std::string model = directory_ + "/tokenizer.model";
    std::optional<SentencePieceModel> pieces;
    if (file_exists(model)) {
      try {
        pieces = parse_sentencepiece_model(read_file(model, SentencePieceModel::kMaxFile), model);
      } catch (const UserError&) {
        if (!json) throw;  // tokenizer.model is of another kind (tiktoken), which is not read
      }
    }
    if (!json) from_sentencepiece(*pieces);
    else from_json(pieces);
    add_tokens();
    warn_of_added_tokens(*pipeline_, source_);
    fit();
    names();
    return std::move(out_);
  }

 private:
  void require(bool known, const char* what) const {
    if (!known)
      throw UserError(
          "{}: GGUF: {}; llama.cpp has byte-level BPE, and SentencePiece's BPE and unigram model, for models of this "
          "kind",
          source_, what);
  }
  void warn_of_bytes() const {
    log_warning(
        "{}: llama.cpp does not spell unknown characters as bytes with a unigram model: they become the unknown token "
        "there",
        source_);
  }

  void from_sentencepiece(const SentencePieceModel& model) {
    require(!model.whitespace_as_suffix, "its tokenizer writes spaces after words");
    out_.model = model.bpe ? "llama" : "t5", out_.pre = "default";
    if (!model.bpe) out_.charsmap = model.charsmap;
    if (!model.bpe && model.byte_fallback) warn_of_bytes();
    for (auto& piece : model.pieces) {
      out_.tokens.push_back(piece.text);
      out_.scores.push_back(piece.score);
      out_.types.push_back(static_cast<std::int32_t>(piece.type));
    }
    out_.add_space_prefix = model.add_dummy_prefix;
    out_.remove_extra_whitespaces = model.remove_extra_whitespaces;
  }

  void from_json(const std::optional<SentencePieceModel>& pieces) {
    const TokenizerJson json = read_tables(directory_);
    const bool unigram = dynamic_cast<const Unigram*>(pipeline_->model.get()) != nullptr;
    require(unigram || dynamic_cast<const Bpe*>(pipeline_->model.get()),
            "its tokenizer is neither byte-pair encoding nor unigram");
    require(!unigram || !pipeline_->pre_tokenizer.byte_level, "its tokenizer is a unigram model of bytes");
    fill_tokens(json);
    if (pipeline_->pre_tokenizer.byte_level) return from_byte_level(json);
    const Json& model = json.root.contains("model") ? json.root["model"] : Json::object();
    const bool bytes = json_bool(model, "byte_fallback", false, kTokenizerFile);
    require(unigram || bytes, "its tokenizer has no bytes for characters it does not know");
    if (unigram && bytes) warn_of_bytes();
    out_.model = unigram ? "t5" : "llama", out_.pre = "default";
    for (std::size_t i = 0; i < out_.tokens.size(); ++i)
      if (const std::string& t = out_.tokens[i]; t.size() == 6 && t.starts_with("<0x") && t.ends_with(">"))
        out_.types[i] = V::byte;
    if (pipeline_->unk) out_.types[static_cast<std::size_t>(*pipeline_->unk)] = V::unknown;
    if (unigram) unigram_rules(json);
    else scores(json, pieces);
    Encoding probe = pipeline_->encode("x", {.parse_special = false});
    out_.add_space_prefix = !probe.ids.empty() && pipeline_->piece(probe.ids[0]).starts_with(kSpaceMark);
    warn_of_other_merges(*pipeline_, out_, source_);
  }

  void fill_tokens(const TokenizerJson& json) {
    std::int64_t size = 0;
    for (std::size_t i = 0; i < json.tokens.size(); ++i)
      size = std::max(size, (json.ids.empty() ? static_cast<std::int64_t>(i) : json.ids[i]) + 1);
    out_.tokens.resize(static_cast<std::size_t>(size));
    out_.types.assign(out_.tokens.size(), V::normal);
    for (std::size_t i = 0; i < json.tokens.size(); ++i)
      out_.tokens[json.ids.empty() ? i : static_cast<std::size_t>(json.ids[i])] = json.tokens[i];
  }

  void from_byte_level(const TokenizerJson& json) {
    out_.model = "gpt2";
    for (std::size_t i = 0; i + 1 < json.merges.size(); i += 2)
      out_.merges.push_back(fmt::format("{} {}", json.merges[i], json.merges[i + 1]));
    const Encoding probe = pipeline_->encode(pre_tokenizer_probe(), {.add_special = true});
    out_.pre = pre_tokenizer_of_digest(pre_tokenizer_digest(probe.ids));
    if (!out_.pre.empty()) return;
    Splitter splitter;
    if (json.root.contains("pre_tokenizer")) look_at_splitter(json.root["pre_tokenizer"], splitter);
    out_.pre = pre_tokenizer_of_pattern(splitter.pattern, splitter.digits);
    if (!out_.pre.empty()) return;
    out_.pre = "default";
    log_warning(
        "{}: llama.cpp has no name for this tokenizer's rules for splitting words: it may split some texts differently",
        source_);
  }

  void unigram_rules(const TokenizerJson& json) {
    out_.scores.assign(json.scores.begin(), json.scores.end());
    auto ids = [&](const char* text) { return pipeline_->encode(text, {.parse_special = false}).ids; };
    out_.remove_extra_whitespaces = ids("a  b") == ids("a b");
    if (json.root.contains("normalizer")) out_.charsmap = charsmap_of(json.root["normalizer"]);
  }

  // SentencePiece merges the pair whose result has the best score. Without its model, scores follow from the order of
  // the merges.
  void scores(const TokenizerJson& json, const std::optional<SentencePieceModel>& pieces) {
    out_.scores.assign(out_.tokens.size(), 0);
    if (pieces && pieces->bpe && pieces->pieces.size() <= out_.tokens.size() &&
        std::ranges::equal(pieces->pieces, std::span(out_.tokens).first(pieces->pieces.size()), {},
                           &SentencePieceModel::Piece::text)) {
      for (std::size_t i = 0; i < pieces->pieces.size(); ++i) {
        out_.scores[i] = pieces->pieces[i].score;
        out_.types[i] = static_cast<std::int32_t>(pieces->pieces[i].type);
      }
      out_.remove_extra_whitespaces = pieces->remove_extra_whitespaces;
      return;
    }
    std::vector<bool> known(out_.tokens.size());
    std::string joined;
    for (std::size_t i = 0; i + 1 < json.merges.size(); i += 2) {
      joined.assign(json.merges[i]).append(json.merges[i + 1]);
      const auto id = static_cast<std::size_t>(pipeline_->model->vocabulary.find(joined));
      if (known[id]) continue;
      known[id] = true;
      out_.scores[id] = -static_cast<float>(i / 2);
    }
  }

  void add_tokens() {
    for (const AddedToken& t : pipeline_->added.all()) {
      const auto id = static_cast<std::size_t>(t.id);
      if (id >= out_.tokens.size()) {
        out_.tokens.resize(id + 1);
        out_.types.resize(id + 1, V::unused);
        if (!out_.scores.empty()) out_.scores.resize(id + 1, -1000);
      }
      const bool control = t.special || looks_special(t.text);
      const bool known = out_.types[id] == V::unknown || out_.types[id] == V::byte || out_.types[id] == V::control;
      out_.tokens[id] = control || out_.model == "gpt2" ? t.text : with_spaces(t.text);
      if (!known) out_.types[id] = control ? V::control : V::user_defined;
      if (t.rstrip) out_.strips_right.insert(t.id);
      out_.strips_left |= t.lstrip;
    }
  }

  // Pads or truncates the vocabulary to one token per row of the embedding.
  void fit() {
    const auto rows = static_cast<std::size_t>(spec_.vocab);
    if (out_.tokens.size() > rows)
      log_warning("{}: the tokenizer has {} tokens, the model {} rows: the others are left out", source_,
                  out_.tokens.size(), rows);
    out_.tokens.resize(rows);
    out_.types.resize(rows, V::unused);
    if (!out_.scores.empty()) out_.scores.resize(rows, -10000);
    for (std::size_t i = 0; i < rows; ++i)
      if (out_.tokens[i].empty()) out_.tokens[i] = fmt::format("[PAD{}]", i), out_.types[i] = V::unused;
  }

  std::optional<Token> with_row(std::optional<Token> id) const {
    return id && *id >= 0 && *id < spec_.vocab ? id : std::nullopt;
  }

  void names() {
    auto or_model = [&](std::optional<Token> id, Token model) { return with_row(id ? id : std::optional(model)); };
    out_.bos = or_model(pipeline_->bos, spec_.bos);
    out_.eos = or_model(pipeline_->eos, spec_.eos.empty() ? -1 : spec_.eos[0]);
    out_.unk = with_row(pipeline_->unk), out_.pad = or_model(pipeline_->pad, spec_.pad);
    auto puts = [](const std::vector<Token>& ids, std::optional<Token> id) {
      return id && std::ranges::count(ids, *id) > 0;
    };
    out_.add_bos = puts(pipeline_->post_processor.front, out_.bos);
    out_.add_eos = puts(pipeline_->post_processor.back, out_.eos);
    out_.chat_template = pipeline_->chat_template;
    out_.named_templates = pipeline_->named_templates;
    // Further stop tokens.
    std::vector<Token> ends;
    const std::string config = directory_ + "/tokenizer_config.json";
    if (file_exists(config))
      if (const Json json = read_json(config, {.object_keys = 8192});
          json.contains("eot_token") && json["eot_token"].is_string())
        if (auto id = with_row(pipeline_->find(json["eot_token"].get<std::string>()))) ends.push_back(*id);
    for (Token id : spec_.eos)
      if (with_row(id)) ends.push_back(id);
    std::vector<Token> rest;
    for (Token id : ends)
      if (id != out_.eos && std::ranges::count(rest, id) == 0) rest.push_back(id);
    if (!rest.empty()) out_.eot = rest[0];
    if (rest.size() > 1) out_.eom = rest[1];
    if (rest.size() > 2)
      log_warning("{}: {} tokens end an answer; GGUF names three: '{}' is left out", source_, rest.size() + 1,
                  pipeline_->piece(rest[2]));
  }

  const std::string &directory_, &source_;
  const ModelSpec& spec_;
  std::unique_ptr<Pipeline> pipeline_;
  V out_;
};

}  // namespace

GgufVocabulary read_vocabulary(const std::string& directory, const ModelSpec& spec, const std::string& source) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"})
    if (file_exists(directory + "/" + name)) return Reader(directory, spec, source).read();
  log_warning("{}: no tokenizer: prompts for this file can be token ids only", source);
  GgufVocabulary none;
  none.model = "none";
  return none;
}

void GgufVocabulary::write(GgufMetadata& to) const {
  auto set = [&](const char* name, GgufValue value) {
    to.set(std::string("tokenizer.ggml.") + name, std::move(value));
  };
  set("model", GgufValue::text(model));
  if (model == "none") return;
  set("pre", GgufValue::text(pre));
  set("tokens", GgufValue::texts(tokens));
  if (!scores.empty()) set("scores", GgufValue::f32s(scores));
  set("token_type", GgufValue::i32s(types));
  if (!charsmap.empty()) set("precompiled_charsmap", GgufValue::bytes(charsmap));
  if (model == "gpt2") set("merges", GgufValue::texts(merges));
  const std::pair<const char*, std::optional<Token>> ids[] = {{"bos_token_id", bos},     {"eos_token_id", eos},
                                                              {"unknown_token_id", unk}, {"padding_token_id", pad},
                                                              {"eot_token_id", eot},     {"eom_token_id", eom}};
  for (auto& [name, id] : ids)
    if (id) set(name, GgufValue::u32(static_cast<std::uint32_t>(*id)));
  const std::pair<const char*, std::optional<bool>> flags[] = {{"add_bos_token", add_bos},
                                                               {"add_eos_token", add_eos},
                                                               {"add_space_prefix", add_space_prefix},
                                                               {"remove_extra_whitespaces", remove_extra_whitespaces}};
  for (auto& [name, flag] : flags)
    if (flag) set(name, GgufValue::boolean(*flag));
  if (!chat_template.empty()) to.set("tokenizer.chat_template", GgufValue::text(chat_template));
  std::vector<std::string> names;
  for (auto& [name, text] : named_templates) {
    names.push_back(name);
    to.set("tokenizer.chat_template." + name, GgufValue::text(text));
  }
  if (!names.empty()) to.set("tokenizer.chat_templates", GgufValue::texts(names));
}

}  // namespace dml
