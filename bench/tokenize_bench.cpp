// Tokenizing speed on two threads, compared with libsentencepiece in the same run. tokenize_peer.js prints the rate of
// the Rust library on the same texts; tokenize.sh runs and compares both. DML_DATA names the data folder; a pass covers
// the texts repeated to DML_MB megabytes (100).
#include <benchmark/benchmark.h>
#include <sentencepiece_processor.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "core/files.h"
#include "core/json.h"
#include "tokenizer/tokenizer.h"

namespace {

constexpr int kThreads = 2;

std::string data() {
  const char* set = std::getenv("DML_DATA");
  return set ? set : "../shared/data";
}

// Alpaca rows and 4 kB pieces of plain text.
const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    dml::JsonLimits limits;
    for (const dml::Json& row : dml::read_json(data() + "/datasets/alpaca/alpaca_en_demo.json", limits))
      out.push_back(row["instruction"].get<std::string>() + "\n" + row["input"].get<std::string>() + "\n" +
                    row["output"].get<std::string>());
    std::string plain = dml::read_file(data() + "/datasets/text/tinyshakespeare.txt");
    for (std::size_t i = 0; i < plain.size(); i += 4096) out.push_back(plain.substr(i, 4096));
    return out;
  }();
  return all;
}
std::int64_t total_bytes() {
  std::int64_t n = 0;
  for (auto& t : texts()) n += static_cast<std::int64_t>(t.size());
  return n;
}

// Number of repetitions of the texts in a pass.
std::int64_t copies() {
  const char* set = std::getenv("DML_MB");
  const double bytes = 1e6 * (set ? std::atof(set) : 100);
  return static_cast<std::int64_t>(bytes / static_cast<double>(total_bytes())) + 1;
}

template <class Encode>
void run(benchmark::State& state, Encode&& encode) {
  const std::size_t all = texts().size() * static_cast<std::size_t>(copies());
  for (auto _ : state) {
    std::atomic<std::size_t> next{0}, ids{0};
    auto work = [&] {
      for (std::size_t i = next++; i < all; i = next++) ids += encode(texts()[i % texts().size()]);
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
    for (auto& t : threads) t.join();
    benchmark::DoNotOptimize(ids.load());
  }
  state.counters["MB/s"] = benchmark::Counter(1e-6 * static_cast<double>(copies() * total_bytes()),
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void BM_dml(benchmark::State& state, const std::string& directory) {
  auto tokenizer = dml::load_tokenizer(directory);
  run(state, [&](const std::string& text) { return tokenizer->encode(text).ids.size(); });
}
// Only tokenizer.model, as in a folder without tokenizer.json.
void BM_dml_model(benchmark::State& state, const std::string& directory) {
  std::string folder = "/tmp/dml-tokenize-bench-" + std::to_string(getpid());
  dml::make_directories(folder);
  dml::write_file(folder + "/tokenizer.model", dml::read_file(directory + "/tokenizer.model"));
  auto tokenizer = dml::load_tokenizer(folder);
  run(state, [&](const std::string& text) { return tokenizer->encode(text).ids.size(); });
}
void BM_libsentencepiece(benchmark::State& state, const std::string& directory) {
  sentencepiece::SentencePieceProcessor processor;
  processor.LoadFromSerializedProto(dml::read_file(directory + "/tokenizer.model")).IgnoreError();
  run(state, [&](const std::string& text) {
    std::vector<int> ids;
    processor.Encode(text, &ids).IgnoreError();
    return ids.size();
  });
}
void BM_load(benchmark::State& state, const std::string& directory) {
  for (auto _ : state) benchmark::DoNotOptimize(dml::load_tokenizer(directory));
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::string home = data() + "/tokenizers/";
  auto timed = [](auto* b) { b->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1); };
  for (const char* name : {"gpt2", "qwen2.5", "llama3", "llama2", "phi-3"})
    timed(benchmark::RegisterBenchmark((std::string("dml/") + name).c_str(), BM_dml, home + name));
  for (const char* name : {"llama2", "mistral-v1"}) {
    timed(benchmark::RegisterBenchmark((std::string("dml-model/") + name).c_str(), BM_dml_model, home + name));
    timed(benchmark::RegisterBenchmark((std::string("libsentencepiece/") + name).c_str(), BM_libsentencepiece,
                                       home + name));
  }
  for (const char* name : {"gpt2", "qwen2.5", "llama3", "llama2"})
    benchmark::RegisterBenchmark((std::string("load/") + name).c_str(), BM_load, home + name)
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.3);
  benchmark::RunSpecifiedBenchmarks();
}
