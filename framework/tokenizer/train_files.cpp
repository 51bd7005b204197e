// A trained SentencePiece model as the files of a Hugging Face tokenizer directory.
//
// tokenizer.json of a BPE model lists merges; SentencePiece knows none: any two neighbors may merge whose
// concatenation is a piece, the best score first, the leftmost of equals. So every split of a piece into two pieces
// becomes a merge, pieces by falling score, splits with the longest left side first, which in a run of one character is
// what leftmost means.
#include <algorithm>
#include <unordered_map>

#include "core/base64.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/text.h"
#include "core/utf8.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/train.h"

namespace dml {
namespace {

using Type = SentencePieceModel::Type;
using Piece = SentencePieceModel::Piece;
const std::string kMark = "\u2581";

std::string json_text(const std::string& text) { return dump(Json(text)); }

std::string spelling(const Piece& p) {
  return p.type == Type::user_defined ? with_replaced(p.text, kMark, " ") : p.text;
}

std::string merges(const SentencePieceModel& model) {
  std::unordered_map<std::string_view, bool> known;
  std::vector<const Piece*> pieces;
  for (auto& p : model.pieces)
    if (p.type == Type::normal) {
      known[p.text] = true;
      pieces.push_back(&p);
    }
  std::ranges::stable_sort(pieces, [](auto* a, auto* b) { return a->score > b->score; });
  std::string out;
  for (const Piece* p : pieces) {
    std::vector<std::size_t> cuts;
    for (std::size_t at = 0; at < p->text.size(); next_code_point(p->text, at))
      if (at > 0) cuts.push_back(at);
    for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
      std::string left = p->text.substr(0, *cut), right = p->text.substr(*cut);
      if (known.contains(left) && known.contains(right))
        out += fmt::format("{}      [{}, {}]", out.empty() ? "" : ",\n", json_text(left), json_text(right));
    }
  }
  return out;
}

std::string model_json(const SentencePieceModel& model) {
  std::string vocabulary;
  if (model.bpe) {
    for (std::size_t id = 0; id < model.pieces.size(); ++id)
      vocabulary += fmt::format("{}      {}: {}", id ? ",\n" : "", json_text(spelling(model.pieces[id])), id);
    return fmt::format(
        "{{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": {},\n    "
        "\"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": true,\n    "
        "\"byte_fallback\": {},\n    \"ignore_merges\": false,\n    \"vocab\": {{\n{}\n    }},\n    \"merges\": "
        "[\n{}\n    ]\n  }}",
        json_text(model.pieces[static_cast<std::size_t>(model.unk)].text), model.byte_fallback, vocabulary,
        merges(model));
  }
  // The score of bytes, so low that the text "<0x0A>" is never a byte token.
  constexpr double kNever = -100;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& p = model.pieces[id];
    vocabulary += fmt::format("{}      [{}, {}]", id ? ",\n" : "", json_text(spelling(p)),
                              p.type == Type::byte ? kNever : static_cast<double>(p.score));
  }
  return fmt::format(
      "{{\n    \"type\": \"Unigram\",\n    \"unk_id\": {},\n    \"byte_fallback\": {},\n    \"vocab\": [\n{}\n    ]\n  "
      "}}",
      model.unk, model.byte_fallback, vocabulary);
}

struct Named {
  std::size_t id;
  std::string text;
  bool special;
};

std::vector<Named> added_tokens(const SentencePieceModel& model) {
  std::vector<Named> out;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& p = model.pieces[id];
    if (p.type == Type::control || p.type == Type::unknown || p.type == Type::user_defined)
      out.push_back({id, spelling(p), p.type != Type::user_defined});
  }
  return out;
}

Json added_entry(const Named& token) {
  return {{"content", token.text}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},       {"normalized", false},  {"special", token.special}};
}

Json normalizer(const SentencePieceModel& model) {
  Json mark = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}};
  if (model.charsmap.empty()) return mark;
  return {{"type", "Sequence"},
          {"normalizers",
           Json::array({{{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(model.charsmap)}}, mark})}};
}

Json post_processor(const std::string& bos) {
  Json token = {{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
  auto sequence = [](const char* name, int type) { return Json{{"Sequence", {{"id", name}, {"type_id", type}}}}; };
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({token, sequence("A", 0)})},
          {"pair", Json::array({token, sequence("A", 0), sequence("B", 1)})},
          {"special_tokens", {{bos, {{"id", bos}, {"ids", {1}}, {"tokens", {bos}}}}}}};
}

std::string tokenizer_json(const SentencePieceModel& model, const std::string& bos) {
  std::string added;
  for (const Named& token : added_tokens(model)) {
    Json entry = {{"id", token.id}};
    entry.update(added_entry(token));
    added += fmt::format("{}    {}", added.empty() ? "" : ",\n", dump(entry));
  }
  Json decoder = {{"type", "Sequence"},
                  {"decoders", Json::array({{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
                                            {{"type", "ByteFallback"}},
                                            {{"type", "Fuse"}}})}};
  return fmt::format(
      "{{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [\n{}\n  ],\n"
      "  \"normalizer\": {},\n  \"pre_tokenizer\": null,\n  \"post_processor\": {},\n  \"decoder\": {},\n  \"model\": "
      "{}\n}}\n",
      added, dump(normalizer(model)), dump(post_processor(bos)), dump(decoder), model_json(model));
}

}  // namespace

void write_tokenizer(const TokenizerTraining& options, const std::string& bytes, const std::string& folder) {
  const SentencePieceModel model = parse_sentencepiece_model(bytes, "tokenizer.model");
  Json names = {{"bos_token", options.bos}, {"eos_token", options.eos}, {"unk_token", options.unk}};
  if (options.pad) names["pad_token"] = *options.pad;
  if (!options.special.empty()) names["additional_special_tokens"] = options.special;
  Json added = Json::object();
  for (const Named& token : added_tokens(model)) added[std::to_string(token.id)] = added_entry(token);
  Json config = names;
  config.update({{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"add_bos_token", true},
                 {"add_eos_token", false},
                 {"clean_up_tokenization_spaces", false},
                 {"legacy", false},
                 {"added_tokens_decoder", added}});
  write_file(folder + "/tokenizer.model", bytes);
  write_file(folder + "/tokenizer.json", tokenizer_json(model, options.bos));
  write_file(folder + "/tokenizer_config.json", config.dump(2) + "\n");
  write_file(folder + "/special_tokens_map.json", names.dump(2) + "\n");
}

}  // namespace dml
