#include "e2e/workshop.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

std::string temporary_folder() {
  std::string name = (fs::temp_directory_path() / "dml-e2e-XXXXXX").string();
  DML_CHECK(mkdtemp(name.data()) != nullptr);
  return name;
}

}  // namespace

Workshop::Workshop() : folder_(temporary_folder()) { alpaca("rows.jsonl", 44); }

Workshop::~Workshop() {
  std::error_code ignored;
  if (!std::getenv("DML_KEEP")) fs::remove_all(folder_, ignored);
}

std::string Workshop::write(const std::string& name, const std::string& text) const {
  write_file(at(name), text);
  return at(name);
}

std::string Workshop::alpaca(const std::string& name, int rows, int first) const {
  static constexpr std::array kThings{"a hammer", "an old ship", "the moon",  "bread", "a small dog",
                                      "rain",     "a clock",     "the river", "glass"};
  static constexpr std::array kSayings{"It is used every day", "People like it", "It can be heavy", "Nobody knows why",
                                       "It is found in the north"};
  std::string text;
  for (int i = first; i < first + rows; ++i) {
    std::string answer;
    for (int k = 0; k <= (i * 7) % 5; ++k)
      answer += fmt::format("{}{}.", k ? " " : "", kSayings[static_cast<std::size_t>(i + 2 * k) % kSayings.size()]);
    text += dump(Json{{"instruction", fmt::format("Tell me about {} number {}.",
                                                  kThings[static_cast<std::size_t>(i) % kThings.size()], i)},
                      {"input", ""},
                      {"output", answer}}) +
            "\n";
  }
  return write(name, text);
}

std::string Workshop::recipe(const std::string& name, const Keys& keys) const {
  Keys all = Keys{{"datasets", fmt::format("[{{path: {}, type: alpaca}}]", at("rows.jsonl"))},
                  {"dataset_prepared_path", at("prepared")},
                  {"val_set_size", "4"},
                  {"sequence_len", "128"},
                  {"micro_batch_size", "1"},
                  {"batch_size", "4"},
                  {"num_epochs", "1"},
                  {"optimizer", "adamw_torch"},
                  {"learning_rate", "5e-3"},
                  {"lr_scheduler", "cosine"},
                  {"warmup_steps", "2"},
                  {"weight_decay", "0.1"},
                  {"max_grad_norm", "1.0"},
                  {"eval_steps", "5"},
                  {"seed", "7"},
                  {"threads", "1"},
                  {"output_dir", at("out")}} +
             keys;
  std::string text;
  for (auto& [key, value] : all)
    if (!value.empty()) text += fmt::format("{}: {}\n", key, value);
  return write(name, text);
}

Ended Workshop::dml(Words words, Surroundings around) const { return e2e::dml(std::move(words), around); }

Ended Workshop::train(int ranks, const std::string& recipe, Words more, Surroundings around) const {
  Words words{"train", recipe};
  words.insert(words.end(), more.begin(), more.end());
  return run(on_ranks(ranks, std::move(words)), around);
}

std::string Workshop::names_left(const std::string& what) const {
  std::string found;
  for (auto& entry : fs::recursive_directory_iterator(folder_))
    if (entry.path().filename().string().find(what) != std::string::npos) found += entry.path().string() + "\n";
  return found;
}

void Workshop::expect_refused(const Ended& e, int exit, const Words& says) const {
  constexpr std::size_t kLittle = std::size_t{80} << 20;
  EXPECT_EQ(e.exit, exit) << e.err;
  std::size_t at = e.err.find("error: ");
  ASSERT_NE(at, std::string::npos) << e.err;
  EXPECT_EQ(e.err.find("error: ", at + 1), std::string::npos) << "more than one error:\n" << e.err;
  std::string line = e.err.substr(at);
  if (auto usage = line.find("\nusage: "); usage != std::string::npos) line.resize(usage + 1);
  EXPECT_EQ(std::ranges::count(line, '\n'), 1) << line;
  for (const std::string& text : says) EXPECT_THAT(line, testing::HasSubstr(text));
  EXPECT_EQ(e.out, "");
  EXPECT_EQ(names_left(".tmp"), "");
  if (!kSanitized) {
    EXPECT_LT(e.peak, kLittle) << line;
  }
}

StoppedRun::StoppedRun(const Words& words, const std::string& job, int ranks, int step)
    : child(words, {.environment = {fmt::format("DML_FAULT=rank={},point=step,kind=stop,step={}", ranks - 1, step)}}),
      rank(stopped_rank(job)) {}
StoppedRun::~StoppedRun() {
  if (rank > 0) kill(rank, SIGKILL);
}
void StoppedRun::resume() const { kill(rank, SIGCONT); }

Keys operator+(Keys a, const Keys& b) {
  for (auto& [key, value] : b) a[key] = value;
  return a;
}

bool long_form() { return std::getenv("DML_LONG") != nullptr; }

Keys tiny_model() {
  return {{"tokenizer_config", DML_SOURCE_DIR "/datasets/quickstart/tokenizer"},
          {"model_config",
           "{model_type: llama, vocab_size: 2048, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, "
           "num_attention_heads: 4, num_key_value_heads: 2, "
           "max_position_embeddings: 256, rms_norm_eps: 1.0e-5, rope_theta: 10000.0, tie_word_embeddings: true, "
           "initializer_range: 0.06, bos_token_id: 1, eos_token_id: 2}"}};
}

const std::string& base_directory() {
  // Made by the first test that asks, in a folder that outlives it.
  struct Made : Workshop {
    Made() {
      Ended e = train(1, recipe("base.yml", tiny_model() + Keys{{"output_dir", at("base")},
                                                                {"save_strategy", "no"},
                                                                {"max_steps", "10"},
                                                                {"learning_rate", "1e-2"}}));
      DML_CHECK(e.exit == 0, "making the base model: {}", e.err);
      path = at("base");
    }
    void TestBody() override {}
    std::string path;
  };
  static Made made;
  return made.path;
}

Keys tiny_lora() {
  return {{"base_model", base_directory()}, {"adapter", "lora"},           {"lora_r", "4"}, {"lora_alpha", "8"},
          {"lora_dropout", "0.1"},          {"lora_target_linear", "true"}};
}

std::vector<Json> json_lines(const std::string& path) {
  std::vector<Json> out;
  std::string text = read_file(path);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(parse_json(std::string_view(text).substr(at, end - at), path));
    at = end + 1;
  }
  return out;
}

std::string numbers_of(const std::string& metrics_path) {
  std::string out;
  for (Json line : json_lines(metrics_path)) {
    for (const char* clock : {"tok_s", "step_s", "mem", "time"}) line.erase(clock);
    out += line.dump() + "\n";
  }
  return out;
}

std::map<std::string, std::string> results_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (entry.is_regular_file() &&
        (name.ends_with(".safetensors") || name == "adapter_config.json" || name == "config.json"))
      files[name] = read_file(entry.path().string());
  }
  return files;
}

std::string shared(const std::string& path) { return DML_SOURCE_DIR "/../shared/" + path; }

}  // namespace dml::e2e
