// Decoding and prompt reading on a 1.1B Llama shape with random weights, beside what the machine can give:
//
//     build/release/bench/decode_bench [--threads N] [--tokens N] [--layers N] [--bf16] [bf16|int8|nf4|f32 …]
//
// Prints the memory's read rate and the single-thread sgemm rate, then for every dtype
//
//   decode      tokens/s of one prompt, bytes of weights read per second, and their ratio to the memory's read rate
//
//   8 prompts   tokens/s of eight prompts together, and their ratio to the tokens/s of one
//
//   prefill     a prompt of 512 tokens: FLOP/s, and their ratio to threads × sgemm
//
// Rates are the best of a few runs each; memory and sgemm rates are measured before and after, and the larger one
// counts. With --bf16 products are in bf16, as with the option of dml infer. With DML_PROFILE=1 every run ends with a
// table of its operations.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "checkpoint/model_config.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "diagnose/synthetic.h"
#include "generate/generator.h"
#include "kernels/gemm.h"
#include "kernels/processor.h"

namespace dml {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// One pass over a buffer far larger than any cache, 64 KB at a time, every thread; the best of a plain loop and of some
// that fetch ahead.
class Memory {
 public:
  double rate() {
    double best = 0;
    for (int i = 0; i < 3; ++i)
      for (std::int64_t ahead : {0, 1024, 4096, 32768}) best = std::max(best, pass(ahead));
    return best;
  }

 private:
  static constexpr std::int64_t kBytes = std::int64_t{1} << 30, kPiece = 1 << 16;
  typedef float V __attribute__((vector_size(64)));

  double pass(std::int64_t ahead) {
    double start = now();
    parallel_ranges(kBytes / kPiece, 64, [&](std::int64_t first, std::int64_t last) {
      V sum[4] = {};
      for (std::int64_t p = first; p < last; ++p) {
        const std::byte* piece = data_.get() + p * kPiece;
        for (std::int64_t at = 0; at < kPiece; at += 256) {
          if (ahead > 0)
            for (int line = 0; line < 256; line += 64) __builtin_prefetch(piece + at + ahead + line, 0, 3);
          for (int i = 0; i < 4; ++i) sum[i] += *reinterpret_cast<const V*>(piece + at + 64 * i);
        }
      }
      sink_[static_cast<std::size_t>(first / 64 % 64)] = sum[0][0] + sum[1][1] + sum[2][2] + sum[3][3];
    });
    return kBytes / (now() - start);
  }

  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_ = [] {
    std::unique_ptr<std::byte, Free> p(static_cast<std::byte*>(std::aligned_alloc(1 << 21, kBytes + kPiece)));
    madvise(p.get(), kBytes + kPiece, MADV_HUGEPAGE);
    std::memset(p.get(), 0, kBytes + kPiece);
    return p;
  }();
  float sink_[64] = {};
};

struct Arguments {
  int threads = 2;
  std::int64_t tokens = 24, layers = 22;
  std::vector<std::string> storages;
};

Arguments arguments(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--threads" && i + 1 < argc) a.threads = std::atoi(argv[++i]);
    else if (word == "--tokens" && i + 1 < argc) a.tokens = std::atoi(argv[++i]);
    else if (word == "--layers" && i + 1 < argc) a.layers = std::atoi(argv[++i]);
    else if (word == "--bf16") kernels::use_precision(DType::bf16);
    else a.storages.push_back(word);
  }
  if (a.storages.empty()) a.storages = {"bf16", "int8", "nf4"};
  return a;
}

ModelSection model_section(std::int64_t layers, const std::string& storage) {
  ModelSection m;
  m.model_config = Json{{"model_type", "llama"},       {"vocab_size", 32000},
                        {"hidden_size", 2048},         {"intermediate_size", 5632},
                        {"num_hidden_layers", layers}, {"num_attention_heads", 32},
                        {"num_key_value_heads", 4},    {"max_position_embeddings", 2048},
                        {"tie_word_embeddings", false}};
  m.frozen_storage = storage == "f32" ? DType::f32 : DType::bf16;
  return m;
}

// Bytes that one token reads: every matrix but the embedding's table, with its scales.
double weight_bytes(const CausalLm& model) {
  auto bytes = [](const kernels::Weight& w) { return static_cast<double>(kernels::bytes_of_rows(w, w.rows)); };
  double sum = bytes(model.head.value());
  for (const DecoderLayer& l : model.layers)
    for (const Linear* w :
         {&l.attention.q, &l.attention.k, &l.attention.v, &l.attention.o, &l.mlp.gate, &l.mlp.up, &l.mlp.down})
      sum += bytes(w->value());
  return sum;
}

struct Run {
  double prompt_rate = 0, new_rate = 0;  // tokens per second
};
Run generate(CausalLm& model, std::size_t prompts, std::size_t length, std::int64_t tokens) {
  std::vector<std::vector<Token>> texts(prompts, std::vector<Token>(length));
  for (std::size_t i = 0; i < prompts; ++i)
    for (std::size_t t = 0; t < length; ++t) texts[i][t] = static_cast<Token>((i * 7919 + t * 104729) % 32000);
  GenerationOptions options;
  options.max_new_tokens = tokens;
  options.sampling.greedy = true;
  Generator generator(model);
  generator.run(texts, options);
  const GenerationSpeed& s = generator.speed();
  return {static_cast<double>(s.prompt_tokens) / s.prompt_seconds,
          tokens > 1 ? static_cast<double>(s.new_tokens) / s.new_seconds : 0};
}

void measure(const Arguments& a, const std::string& storage, Memory& memory) {
  ModelSection section = model_section(a.layers, storage);
  AdapterSection adapter;
  adapter.adapter = AdapterKind::lora;  // frozen weights: those of a source
  adapter.load_in_4bit = storage == "nf4";
  adapter.load_in_8bit = storage == "int8";
  ModelSpec spec = read_model_config(section.model_config, "decode_bench");
  SyntheticWeights weights(spec, section, adapter);
  auto model = build_model(spec, weights.source(), {}, "decode_bench");
  expand_scales(*model);
  const double bytes = weight_bytes(*model);
  generate(*model, 1, 8, 2);

  double memory_rate = memory.rate(), sgemm = kernels::measured_sgemm_rate();
  double one = 0, eight = 0, prefill = 0;
  auto run = [&](const char* what, std::size_t prompts, std::size_t length, std::int64_t tokens) {
    reset_profile();
    Run r = generate(*model, prompts, length, tokens);
    if (profiling) fmt::print("{}\n{}\n", what, fmt::join(profile_table(profile_rows(), threads()), "\n"));
    return r;
  };
  for (int i = 0; i < 3; ++i) {
    one = std::max(one, run("one prompt", 1, 8, a.tokens).new_rate);
    memory_rate = std::max(memory_rate, memory.rate());
    eight = std::max(eight, run("8 prompts", 8, 8, a.tokens / 2).new_rate);
    prefill = std::max(prefill, run("prompt of 512", 1, 512, 1).prompt_rate);
    sgemm = std::max(sgemm, kernels::measured_sgemm_rate());
  }
  double linear = 0;
  for (const DecoderLayer& l : model->layers)
    for (const Linear* w :
         {&l.attention.q, &l.attention.k, &l.attention.v, &l.attention.o, &l.mlp.gate, &l.mlp.up, &l.mlp.down})
      linear += 2.0 * static_cast<double>(w->in() * w->out());
  double attention = static_cast<double>(a.layers) * 2.0 * 512 * 2048;  // scores and values, half of them
  fmt::print(
      "{:5} {:6.1f} tokens/s {:6.2f} GB/s {:5.2f} of memory | 8 prompts {:6.1f} tokens/s {:5.2f} × one | prefill "
      "{:6.1f} tokens/s {:5.2f} of sgemm"
      " | memory {:.1f} GB/s, sgemm {:.0f} GFLOP/s a thread\n",
      storage, one, one * bytes / 1e9, one * bytes / memory_rate, eight, eight / one, prefill,
      prefill * (linear + attention) / (sgemm * a.threads), memory_rate / 1e9, sgemm / 1e9);
  std::fflush(stdout);
}

}  // namespace
}  // namespace dml

int main(int argc, char** argv) {
  dml::Arguments a = dml::arguments(argc, argv);
  dml::set_threads(a.threads);
  fmt::print("{} layers of 2048 (hidden 5632, 32/4 heads), vocabulary 32000; {} threads\n", a.layers, a.threads);
  dml::Memory memory;
  for (const std::string& storage : a.storages) dml::measure(a, storage, memory);
}
