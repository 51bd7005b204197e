// The time to load a 1.1B bfloat16 model from the page cache, and to start the program:
//
//     build/release/bench/load_bench [--threads N] [--directory DIR] [--dml PROGRAM]
//
// Without DIR, a model of random weights is written to the temporary folder (2.2 GB) and removed at the end. Prints the
// best of three times: ready to answer (as stored, in float32, in 8 and 4 bits cached by an earlier run), until the
// first token of a short prompt, ready to train an adapter on each of these, ready for full fine-tuning (training
// includes reading every byte of the base for its digest); and the time of `PROGRAM version`.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_files.h"
#include "core/bf16.h"
#include "core/parallel.h"
#include "core/random.h"
#include "dist/comm.h"
#include "generate/generator.h"

namespace dml {
namespace {

namespace fs = std::filesystem;

const Json kConfig = {{"architectures", {"LlamaForCausalLM"}},
                      {"model_type", "llama"},
                      {"dtype", "bfloat16"},
                      {"vocab_size", 32000},
                      {"hidden_size", 2048},
                      {"intermediate_size", 5632},
                      {"num_hidden_layers", 22},
                      {"num_attention_heads", 32},
                      {"num_key_value_heads", 4},
                      {"max_position_embeddings", 2048},
                      {"tie_word_embeddings", false}};

void write_model(const std::string& directory) {
  fs::create_directories(directory);
  write_file(directory + "/config.json", dump(kConfig));
  std::vector<TensorInfo> infos;
  for (const WeightName& w : weight_names(read_model_config(kConfig, "load_bench")))
    infos.push_back({w.tensor, DType::bf16, w.tensor_shape()});
  ModelWriter writer(directory, infos);
  for (const TensorInfo& info : writer.tensors()) {
    std::vector<bf16> values(static_cast<std::size_t>(info.size()));
    parallel_ranges(info.size(), 1 << 16, [&](std::int64_t first, std::int64_t last) {
      Random random(0, Purpose::init);
      for (std::int64_t i = first; i < last; ++i)
        values[static_cast<std::size_t>(i)] =
            to_bf16(info.shape.size() == 1 ? 1 : (random.uniform(static_cast<std::uint64_t>(i)) - 0.5f) * 0.07f);
    });
    writer.append(values.data(), values.size() * sizeof(bf16));
  }
  writer.commit();
}

double best_of_three(const std::function<void()>& f) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void measure(const std::string& directory) {
  ModelSection section;
  section.base_model = directory;
  auto row = [](const std::string& what, double seconds) {
    fmt::print("{:<42} {:6.2f} s\n", what, seconds);
    std::fflush(stdout);
  };
  auto answering = [&](const std::string& how, std::optional<DType> storage, const AdapterSection& quantized) {
    row("ready to answer" + how,
        best_of_three([&] { make_inference_model(open_base_model(section, quantized), storage); }));
  };
  row("first token behind 8", best_of_three([&] {
        auto model = make_inference_model(open_base_model(section), std::nullopt);
        std::vector<Token> prompt{1, 5, 9, 200, 3000, 17, 31999, 4};
        GenerationOptions options;
        options.sampling.greedy = true;
        options.max_new_tokens = 1;
        Generator(*model).run({&prompt, 1}, options);
      }));
  auto training = [&](const std::string& what, const AdapterSection& adapter,
                      std::optional<DType> storage = std::nullopt) {
    ModelSection with = section;
    with.frozen_storage = storage;
    row("ready to train " + what, best_of_three([&] {
          auto alone = make_self_comm();
          BaseModel base = open_base_model(with, adapter);
          base.examine(*alone);
          auto model = make_trainable_model(base, with, adapter, 1);
        }));
  };
  AdapterSection lora, int8, nf4;
  lora.adapter = AdapterKind::lora;
  lora.lora_r = 16;
  lora.lora_target_linear = true;
  const std::string cache = (fs::temp_directory_path() / fmt::format("dml-load-bench-cache-{}", getpid())).string();
  lora.quantized_cache_path = cache;
  int8 = nf4 = lora;
  int8.load_in_8bit = true;
  nf4.adapter = AdapterKind::qlora;
  nf4.load_in_4bit = true;
  for (const AdapterSection* quantized : {&int8, &nf4}) open_base_model(section, *quantized);
  answering("", std::nullopt, {});
  answering(" in float32", DType::f32, {});
  answering(" in int8", std::nullopt, int8);
  answering(" in nf4", std::nullopt, nf4);
  training("a LoRA adapter (rank 16)", lora);
  training("one on float32", lora, DType::f32);
  training("one on int8", int8);
  training("one on nf4", nf4);
  training("everything", {});
  fs::remove_all(cache);
}

}  // namespace
}  // namespace dml

int main(int argc, char** argv) {
  std::string directory, program;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string option = argv[i];
    if (option == "--threads") dml::set_threads(std::atoi(argv[i + 1]));
    if (option == "--directory") directory = argv[i + 1];
    if (option == "--dml") program = argv[i + 1];
  }
  const bool own = directory.empty();
  if (own) directory = (std::filesystem::temp_directory_path() / fmt::format("dml-load-bench-{}", getpid())).string();
  if (own) dml::write_model(directory);
  dml::measure(directory);
  if (own) std::filesystem::remove_all(directory);
  if (!program.empty())
    fmt::print("{:<42} {:6.0f} ms\n", "dml version", 1000 * dml::best_of_three([&] {
                                                       if (std::system((program + " version > /dev/null").c_str()) != 0)
                                                         fmt::print("{} version failed\n", program);
                                                     }));
}
