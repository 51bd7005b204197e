#include "pipeline/init_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "assembly/job.h"
#include "core/error.h"
#include "core/memory_limits.h"
#include "core/rounding.h"
#include "data/example.h"
#include "data/prepare.h"
#include "model/adapter_plan.h"
#include "pipeline/init_memory.h"

namespace dml {
namespace {

constexpr std::int64_t kFullTraining = 50'000'000;  // parameters: up to so many, every weight is trained
constexpr double kShareOfMemory = 0.8;

std::int64_t power_of_two(std::int64_t n) {
  std::int64_t p = 1;
  while (p * 2 <= n) p *= 2;
  return p;
}

// ---- lengths

LengthFacts measure_lengths(const Recipe& recipe, const Tokenizer& tokenizer, const std::vector<Json>& rows) {
  LengthFacts out;
  DataSection data = recipe.data;
  const DatasetEntry& entry = data.datasets[0];
  auto strategy = make_prompt_strategy(prompt_context(data, recipe.templates, entry, tokenizer));
  for (const Json& row : rows) {
    try {
      std::int64_t trained = 0;
      std::vector<std::int64_t> lengths;
      for (const Rendered& rendered : strategy->render(row)) {
        Example example = assemble(rendered, tokenizer);
        trained += example.trained();
        if (example.trained() > 0) lengths.push_back(example.size());
      }
      ++out.rows;
      out.untrained += trained == 0;
      out.sorted.insert(out.sorted.end(), lengths.begin(), lengths.end());
    } catch (const UserError& e) {
      if (++out.failed == 1) out.failure = e.what();
    }
  }
  std::ranges::sort(out.sorted);
  if (!out.sorted.empty())
    out.mean = static_cast<double>(std::accumulate(out.sorted.begin(), out.sorted.end(), std::int64_t{0})) /
               static_cast<double>(out.sorted.size());
  return out;
}

class Chooser {
 public:
  Chooser(const ModelFacts& model, const DataFacts& data, std::optional<AdapterKind> adapter)
      : model_(model), data_(data), adapter_(adapter) {}

  InitChoice choose(const std::string& output_dir) {
    Recipe& r = out_.recipe;
    r.train.output_dir = output_dir;
    r.data.datasets = {data_.entry};
    r.preference.rl = data_.rl;
    r.data.rows = data_.rl == Rl::dpo ? RowKind::pairs : data_.rl == Rl::kto ? RowKind::labeled : RowKind::text;
    choose_kind();
    choose_tokens();
    out_.lengths = measure_lengths(r, *tokenizer_, data_.sample);
    check_lengths();
    if (model_.scratch) choose_architecture();
    choose_length();
    choose_schedule();
    choose_method();
    fit_memory();
    count_steps();
    return std::move(out_);
  }

 private:
  bool chat() const {
    return data_.kind == DataKind::conversations && data_.entry.type.name.starts_with("chat_template");
  }

  void choose_kind() {
    if (model_.scratch && data_.rl != Rl::none)
      throw UserError(
          "{}: preferences are trained on top of a model that can answer, and this directory holds only a tokenizer",
          model_.name);
    full_ = model_.scratch || (!model_.quantized && model_.spec.parameters() <= kFullTraining);
    if (!adapter_) return;
    if (model_.scratch && *adapter_ != AdapterKind::none)
      throw UserError("{}: an adapter needs a trained base model, and this directory holds only a tokenizer",
                      model_.name);
    if (model_.quantized && *adapter_ != AdapterKind::qlora)
      throw UserError("{}: its weights are stored as {}; use --adapter qlora", model_.name, model_.dtype);
    full_ = *adapter_ == AdapterKind::none;
  }

  void choose_tokens() {
    Recipe& r = out_.recipe;
    if (model_.scratch) r.model.tokenizer_config = model_.name;
    else r.model.base_model = model_.name;
    if (!model_.tokenizer->eos) {
      r.model.special_tokens.eos_token = missing_eos(*model_.tokenizer);
      out_.notes.push_back(
          fmt::format("the tokenizer names no EOS token; the recipe makes it {}", *r.model.special_tokens.eos_token));
    }
    if (chat()) {
      out_.chat = choose_chat(model_, full_);
      r.templates.chat_template = out_.chat.chat_template;
      if (!out_.chat.chat_template_jinja.empty()) r.templates.chat_template_jinja = out_.chat.chat_template_jinja;
      if (!out_.chat.eot_tokens.empty()) r.templates.eot_tokens = out_.chat.eot_tokens;
      r.model.special_tokens.additional_special_tokens = out_.chat.new_tokens;
    }
    tokenizer_ = load_tokenizer(model_.directory, tokenizer_overrides(r.model));
  }

  void check_lengths() const {
    const LengthFacts& l = out_.lengths;
    if (l.rows == 0) throw UserError("{}: no row can be used; the first: {}", data_.entry.path, l.failure);
    if (l.sorted.empty())
      throw UserError("{}: no row has anything to train on: {} rows were tokenized", data_.entry.path, l.rows);
  }

  // The width follows from the amount of text: a model that sees every sentence a hundred times memorizes it.
  void choose_architecture() {
    const double tokens = out_.lengths.mean * static_cast<double>(data_.rows);
    struct Size {
      double tokens;
      std::int64_t hidden, layers, heads;
    };
    static constexpr Size kSizes[] = {{1e6, 128, 4, 4}, {1e7, 256, 6, 8}, {1e8, 384, 8, 6}, {1e18, 512, 10, 8}};
    const Size& size = *std::ranges::find_if(kSizes, [&](auto& s) { return tokens <= s.tokens; });
    const std::int64_t vocab = tokenizer_->size();
    Json config = {{"model_type", "llama"},
                   {"vocab_size", vocab},
                   {"hidden_size", size.hidden},
                   {"intermediate_size", round_up(size.hidden * 8 / 3, 64)},
                   {"num_hidden_layers", size.layers},
                   {"num_attention_heads", size.heads},
                   {"num_key_value_heads", size.heads / 2},
                   {"max_position_embeddings", 1024},
                   {"rms_norm_eps", 1e-5},
                   {"rope_theta", 10000.0},
                   {"tie_word_embeddings", true},
                   // A narrow model needs more than the usual 0.02 to begin with.
                   {"initializer_range", std::round(68 / std::sqrt(static_cast<double>(size.hidden))) / 100}};
    if (tokenizer_->bos) config["bos_token_id"] = *tokenizer_->bos;
    if (tokenizer_->eos) config["eos_token_id"] = *tokenizer_->eos;
    out_.recipe.model.model_config = config;
  }

  std::int64_t context() const {
    if (model_.scratch)
      return json_integer(out_.recipe.model.model_config, "max_position_embeddings", 1024, "model_config");
    return model_.spec.max_positions;
  }

  // Documents are cut into rows of sequence_len; a conversation must fit in one.
  void choose_length() {
    const LengthFacts& l = out_.lengths;
    const std::int64_t longest = l.longest();
    const bool documents = data_.kind == DataKind::documents;
    const std::int64_t wanted = documents ? std::min<std::int64_t>(longest, model_.scratch ? 512 : 2048)
                                : longest <= std::max<std::int64_t>(512, 2 * l.quantile(0.99)) ? longest
                                                                                               : l.quantile(0.99);
    out_.recipe.data.sequence_len = std::min(std::max<std::int64_t>(128, round_up(wanted, 64)), context());
    out_.recipe.data.sample_packing = out_.recipe.data.eval_sample_packing = documents;
  }

  std::int64_t rows_of_training() const {
    const LengthFacts& l = out_.lengths;
    const double kept = static_cast<double>(l.sorted.size()) /
                        static_cast<double>(std::max<std::int64_t>(1, l.rows + l.failed)) *
                        static_cast<double>(data_.rows);
    if (data_.kind != DataKind::documents) return std::max<std::int64_t>(1, std::llround(kept));
    return std::max<std::int64_t>(1, std::llround(kept * l.mean / static_cast<double>(out_.recipe.data.sequence_len)));
  }

  void choose_schedule() {
    Recipe& r = out_.recipe;
    const std::int64_t rows = rows_of_training();
    r.data.val_set_size = rows < 20 ? 0 : rows < 500 ? 0.1 : rows < 10000 ? 0.05 : 500;
    const double kept =
        r.data.val_set_size < 1 ? 1 - r.data.val_set_size : 1 - r.data.val_set_size / static_cast<double>(rows);
    out_.examples = std::max<std::int64_t>(1, std::llround(kept * static_cast<double>(rows)));
    r.train.batch_size = rows < 200 ? 4 : rows < 2000 ? 8 : rows < 20000 ? 16 : 32;
    r.train.batch_size = std::min(*r.train.batch_size, power_of_two(out_.examples));
    if (data_.rl == Rl::kto)
      r.train.batch_size = std::max<std::int64_t>(2, *r.train.batch_size);  // kto compares rows of a batch
    const std::int64_t parameters = parameters_of_model();
    // With few rows, more epochs give enough steps.
    const double wanted = model_.scratch ? 1500 : !full_ ? 100 : parameters < 5'000'000 ? 300 : 200;
    const bool preferences = data_.rl != Rl::none;
    const double least = preferences || rows > 50000 ? 1
                         : rows > 5000               ? 2
                                                     : 3,
                 most = preferences ? 3
                        : full_     ? 40
                                    : 10;
    r.train.num_epochs = std::clamp(
        std::ceil(wanted * static_cast<double>(*r.train.batch_size) / static_cast<double>(out_.examples)), least, most);
    r.optim.optimizer = "adamw_torch";
    r.optim.lr_scheduler = "cosine";
    r.optim.warmup_ratio = 0.05;
    r.optim.learning_rate = model_.scratch               ? (parameters < 5'000'000    ? 2e-3
                                                            : parameters < 50'000'000 ? 1e-3
                                                                                      : 6e-4)
                            : full_                      ? (parameters < 5'000'000    ? 1e-3
                                                            : parameters < 20'000'000 ? 5e-4
                                                                                      : 2e-4)
                            : parameters < 1'000'000'000 ? 4e-4
                                                         : 2e-4;
    if (preferences) r.optim.learning_rate = full_ ? 2e-6 : 2e-5;
    r.train.eval_steps = 0.1;
    r.train.save_steps = 0.5;
    r.train.save_total_limit = 2;
  }

  std::int64_t parameters_of_model() const { return spec().parameters(); }

  ModelSpec spec() const {
    ModelSpec s = model_.scratch ? spec_of_config(out_.recipe.model.model_config) : model_.spec;
    s.vocab = std::max<std::int64_t>(s.vocab, tokenizer_->size());
    return s;
  }

  void choose_method() {
    AdapterSection& a = out_.recipe.adapter;
    if (full_) return;
    a.adapter = AdapterKind::lora;
    a.lora_r = 16;
    a.lora_alpha = 32;
    a.lora_dropout = 0;
    a.lora_target_linear = true;
    if (tokenizer_->size() > model_.tokenizer->size()) {
      for (const WeightName& w : embedding_and_head(model_.spec))
        a.lora_modules_to_save.push_back(w.module().substr(w.module().rfind('.') + 1));
      a.peft_ensure_weight_tying = model_.spec.tied;
    }
  }

  // Tries settings from the fastest to the smallest; takes the first that fits into memory.
  void fit_memory() {
    Recipe& r = out_.recipe;
    out_.available = available_memory();
    const auto room = static_cast<std::size_t>(kShareOfMemory * static_cast<double>(out_.available));
    struct Way {
      bool quantized;
      Recompute recompute;
    };
    std::vector<Way> ways{{false, Recompute::none}, {false, Recompute::layer}};
    if (!full_) ways.insert(ways.end(), {{true, Recompute::none}, {true, Recompute::layer}});
    if (model_.quantized || adapter_ == AdapterKind::qlora) ways.erase(ways.begin(), ways.begin() + 2);
    else if (adapter_ == AdapterKind::lora) ways.resize(2);
    const std::int64_t batch = *r.train.batch_size, wanted = r.data.sequence_len;
    for (std::int64_t length = wanted;; length = round_up(length / 2, 64)) {
      r.data.sequence_len = length;
      const std::int64_t most = std::min(batch, power_of_two(std::max<std::int64_t>(1, 4096 / length)));
      for (const Way& way : ways)
        for (std::int64_t micro = most; micro >= 1; micro /= 2) {
          set_way(way.quantized, way.recompute, micro, batch);
          out_.memory = plan_of(r, spec(), model_);
          if (out_.available == 0 || out_.memory.total() <= room) {
            if (length < wanted)
              out_.notes.push_back(fmt::format("sequence_len is {} instead of {}, for lack of memory", length, wanted));
            return;
          }
        }
      if (length <= 256) break;
    }
    out_.fits = false;
  }

  void set_way(bool quantized, Recompute recompute, std::int64_t micro, std::int64_t batch) {
    Recipe& r = out_.recipe;
    if (!full_) {
      r.adapter.adapter = quantized ? AdapterKind::qlora : AdapterKind::lora;
      r.adapter.load_in_4bit = quantized;
    }
    r.train.gradient_checkpointing = recompute;
    r.train.micro_batch_size = r.train.eval_batch_size = micro;
    r.train.batch_size = batch;
    r.train.gradient_accumulation_steps = batch / micro;
  }

  void count_steps() {
    TrainSection& t = out_.recipe.train;
    const std::int64_t per_epoch = std::max<std::int64_t>(1, out_.examples / *t.batch_size);
    out_.steps = std::llround(t.num_epochs * static_cast<double>(per_epoch));
    t.batch_size.reset();  // replaced by gradient_accumulation_steps
  }

  const ModelFacts& model_;
  const DataFacts& data_;
  const std::optional<AdapterKind> adapter_;
  std::shared_ptr<Tokenizer> tokenizer_;
  bool full_ = false;
  InitChoice out_;
};

}  // namespace

std::int64_t LengthFacts::quantile(double share) const {
  if (sorted.empty()) return 0;
  const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(at, 1, sorted.size()) - 1];
}

InitChoice choose_settings(const ModelFacts& model, const DataFacts& data, const std::string& output_dir,
                           std::optional<AdapterKind> adapter) {
  return Chooser(model, data, adapter).choose(output_dir);
}

}  // namespace dml
