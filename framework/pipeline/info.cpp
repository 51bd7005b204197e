#include "pipeline/info.h"

#include <algorithm>
#include <map>

#include "assembly/model_head.h"
#include "assembly/model_location.h"
#include "checkpoint/adapter_io.h"
#include "checkpoint/bitsandbytes.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_report.h"
#include "checkpoint/packed_groups.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/size_text.h"
#include "data/report.h"
#include "exchange/gguf_file.h"
#include "tokenizer/tokenizer.h"

namespace dml {
namespace {

class Describer {
 public:
  explicit Describer(std::string directory) : directory_(std::move(directory)) {}

  DirectoryInfo describe() {
    const std::string path = directory_ + "/";
    if (is_gguf_file(directory_)) return describe_file();
    require_directory(directory_);
    if (holds_adapter(directory_)) describe_adapter();
    else if (file_exists(path + "config.json")) describe_model();
    else throw UserError("{}: neither a model (config.json) nor an adapter (adapter_config.json)", directory_);
    return std::move(out_);
  }

 private:
  void row(const std::string& key, std::string text, Json value) {
    out_.rows.push_back({key, std::move(text), std::move(value)});
  }
  template <class F>
  bool attempt(F part) {
    try {
      part();
      return true;
    } catch (const UserError& e) {
      if (std::ranges::find(out_.refused, e.what()) == out_.refused.end()) out_.refused.emplace_back(e.what());
      return false;
    }
  }

  void describe_tensors(const std::vector<TensorView>& tensors) {
    std::map<std::string, std::pair<std::int64_t, std::size_t>> kinds;
    std::int64_t parameters = 0;
    for (const TensorView& t : tensors) {
      auto& [count, bytes] = kinds[std::string(safetensors_name(t.dtype))];
      ++count, bytes += t.bytes.size(), parameters += t.size();
    }
    std::vector<std::string> texts;
    Json value = Json::object();
    for (auto& [name, kind] : kinds) {
      texts.push_back(fmt::format("{} {} ({})", kind.first, name, size_text(kind.second)));
      value[name] = {{"tensors", kind.first}, {"bytes", kind.second}};
    }
    row("stored", grouped(parameters) + " values", parameters);
    row("tensors", fmt::format("{}", fmt::join(texts, ", ")), std::move(value));
  }

  DirectoryInfo describe_file() {
    const GgufFile file(directory_);
    const std::string type = file.text("general.type", "model");
    row("kind", fmt::format("{} in a GGUF file of llama.cpp", type), "gguf");
    const std::string architecture = file.text("general.architecture", "none");
    row("architecture", architecture, architecture);
    if (!attempt([&] { require_model(file); })) return std::move(out_);
    std::string folder;
    if (!attempt([&] { folder = model_directory(directory_); })) return std::move(out_);
    describe_weights(folder);
    return std::move(out_);
  }

  void describe_model() {
    row("kind", "model", "model");
    describe_weights(directory_);
  }

  // `folder`: with config and tokenizer.
  void describe_weights(const std::string& folder) {
    ModelSpec spec;
    bool known = attempt([&] { spec = read_model_spec(folder); });
    if (known) describe_spec(spec);
    attempt([&] {
      const ModelFiles files = open_model_files(directory_, spec);
      fit_to_files(spec, files);
      row("files", fmt::format("{}, {}", files.paths().size(), size_text(files.bytes())),
          {{"count", files.paths().size()}, {"bytes", files.bytes()}});
      describe_tensors(files.tensors());
      if (!known) return;
      const Json config = read_json(folder + "/config.json");
      if (const PackedConfig packed = packed_config(config, folder + "/config.json");
          packed.format != PackedFormat::none)
        row("quantized", fmt::format("{} of 4 bits: frozen under an adapter, its matrices become q4_1", packed.name()),
            packed.name());
      if (is_bitsandbytes_config(config, folder + "/config.json")) {
        row("quantized", "nf4 of bitsandbytes: for adapter: qlora", "nf4");
        return;
      }
      ModelReport report = report_weights(files, spec);
      out_.refused.insert(out_.refused.end(), report.errors.begin(), report.errors.end());
      out_.warnings.insert(out_.warnings.end(), report.warnings.begin(), report.warnings.end());
    });
    attempt([&] { describe_tokenizer(folder, known ? spec.vocab : 0); });
  }

  void describe_task(HeadKind head) {
    if (head == HeadKind::sequence_classification) row("task", "sequence classification (a reward model)", "reward");
    if (head == HeadKind::token_classification)
      row("task", "token classification (a process reward model)", "process_reward");
  }

  void describe_spec(const ModelSpec& s) {
    row("family", s.model_type, s.model_type);
    describe_task(s.head);
    row("parameters", grouped(s.parameters()), s.parameters());
    row("layers", fmt::format("{} × {} wide, MLP {}", s.layers, s.hidden, s.ffn),
        {{"count", s.layers}, {"hidden", s.hidden}, {"ffn", s.ffn}});
    if (const MoeSpec& m = s.moe; m.experts > 0)
      row("experts",
          fmt::format("{} of {} for a token, {} wide{}", m.chosen, m.experts, m.ffn,
                      m.shared_ffn > 0 ? fmt::format(", and one of {} for all", m.shared_ffn) : ""),
          {{"count", m.experts}, {"chosen", m.chosen}, {"ffn", m.ffn}, {"shared_ffn", m.shared_ffn}});
    row("attention", fmt::format("{} heads of {}, {} for keys and values", s.heads, s.head_dim, s.kv_heads),
        {{"heads", s.heads}, {"head_dim", s.head_dim}, {"kv_heads", s.kv_heads}});
    row("vocabulary", fmt::format("{}{}", grouped(s.vocab), s.tied ? ", head tied to the embedding" : ""),
        {{"size", s.vocab}, {"tied", s.tied}});
    row("context length", grouped(s.max_positions), s.max_positions);
    row("EOS", fmt::format("{}", fmt::join(s.eos, ", ")), s.eos);
  }

  void describe_tokenizer(const std::string& folder, std::int64_t vocab) {
    auto tokenizer = load_tokenizer(folder);
    const char* kind = file_exists(folder + "/tokenizer.json")    ? "tokenizer.json"
                       : file_exists(folder + "/tokenizer.model") ? "SentencePiece"
                                                                  : "vocab.json";
    row("tokenizer", fmt::format("{}, {} tokens", kind, grouped(tokenizer->size())),
        {{"kind", kind}, {"size", tokenizer->size()}});
    Json ids = Json::object();
    std::vector<std::string> texts;
    for (auto [name, id] : {std::pair{"bos", tokenizer->bos}, std::pair{"eos", tokenizer->eos},
                            std::pair{"pad", tokenizer->pad}, std::pair{"unk", tokenizer->unk}})
      if (id) {
        ids[name] = *id;
        texts.push_back(fmt::format("{} {} {}", name, *id, tokenizer->piece(*id)));
      }
    row("special tokens", fmt::format("{}", fmt::join(texts, ", ")), std::move(ids));
    row("chat template",
        tokenizer->chat_template.empty() ? "none" : fmt::format("{} characters", tokenizer->chat_template.size()),
        !tokenizer->chat_template.empty());
    if (vocab > 0 && tokenizer->size() > vocab)
      out_.refused.push_back(
          fmt::format("the tokenizer has {} tokens, the embedding {} rows", tokenizer->size(), vocab));
  }

  void describe_adapter() {
    const bool peft =
        file_exists(directory_ + "/adapter_model.safetensors") || !file_exists(directory_ + "/adapters.safetensors");
    row("kind", peft ? "adapter of PEFT" : "adapter of mlx-lm", peft ? "peft" : "mlx");
    AdapterConfig c;
    bool known = attempt([&] { c = read_adapter_config_of(directory_); });
    if (known) {
      row("base model", c.base_model.empty() ? "not named" : c.base_model, c.base_model);
      describe_task(c.head);
      row("rank", fmt::format("{}{}", c.r, c.rank_pattern.empty() ? "" : ", others by pattern"), c.r);
      row("alpha", fmt::format("{:g}{}{}", c.alpha, c.use_rslora ? ", rsLoRA" : "", c.use_dora ? ", DoRA" : ""),
          {{"alpha", c.alpha}, {"rslora", c.use_rslora}, {"dora", c.use_dora}});
      row("dropout", fmt::format("{:g}", c.dropout), c.dropout);
      row("initialization",
          c.init == "true"    ? "A random, B zero"
          : c.init == "false" ? "A and B random"
                              : c.init,
          c.init);
      std::string targets = c.all_linear                ? "every linear layer"
                            : !c.target_pattern.empty() ? c.target_pattern
                                                        : fmt::format("{}", fmt::join(c.target_modules, ", "));
      row("targets", targets.empty() ? "the family's own" : targets,
          c.all_linear               ? Json("all-linear")
          : c.target_pattern.empty() ? Json(c.target_modules)
                                     : Json(c.target_pattern));
      if (!c.modules_to_save.empty())
        row("trained in full", fmt::format("{}", fmt::join(c.modules_to_save, ", ")), c.modules_to_save);
      for (const TokenRows& rows : c.token_rows)
        row(fmt::format("trained rows of {}", rows.module.empty() ? "the embedding" : rows.module),
            rows.tokens.size() > 16 ? fmt::format("{} tokens", rows.tokens.size())
                                    : fmt::format("{}", fmt::join(rows.tokens, ", ")),
            rows.tokens);
      if (c.bias != "none" || c.lora_bias)
        row("biases", c.lora_bias ? "of the adapter (lora_bias)" : c.bias, c.lora_bias ? "lora_bias" : c.bias);
      if (c.ensure_weight_tying) row("embedding and head", "tied (ensure_weight_tying)", "tied");
    }
    attempt([&] {
      describe_tensors(
          SafetensorsFile(directory_ + (peft ? "/adapter_model.safetensors" : "/adapters.safetensors")).tensors());
    });
    // Compares the adapter with its base, where the base is found.
    if (known && !c.base_model.empty() && file_exists(model_directory(c.base_model) + "/config.json"))
      attempt([&] {
        ModelSpec spec = read_model_spec(model_directory(c.base_model));
        spec.vocab = vocabulary_of(directory_, spec);
        ModelSection section;
        section.task = task_of(c.head);
        if (c.head != HeadKind::causal_lm) set_head(spec, section, directory_);
        Adapter adapter = read_adapter(directory_, spec, c.base_model);
        row("modules", grouped(static_cast<std::int64_t>(adapter.plan.modules.size())), adapter.plan.modules.size());
      });
  }

  std::string directory_;
  DirectoryInfo out_;
};

}  // namespace

DirectoryInfo describe_directory(const std::string& name) {
  return Describer(file_exists(name) ? name : model_directory(name)).describe();
}

}  // namespace dml
