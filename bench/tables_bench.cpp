// Rows of Parquet and Arrow files as JSON on one thread: every file of the folder that DML_TABLES names (tools/make_tables.mjs FOLDER
// 200000). bytes_per_second counts the JSON.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "data/arrow/rows.h"
#include "data/parquet/rows.h"

namespace {

void read_rows(benchmark::State& state, const std::string& path) {
  std::int64_t bytes = 0;
  std::string row;
  for (auto _ : state) {
    std::unique_ptr<dml::TableRows> rows;
    if (path.ends_with(".parquet")) rows = std::make_unique<dml::parquet::Rows>(path);
    else rows = std::make_unique<dml::arrow::Rows>(path);
    while (rows->next(row)) bytes += static_cast<std::int64_t>(row.size());
  }
  state.SetBytesProcessed(bytes);
}

}  // namespace

int main(int count, char** words) {
  benchmark::Initialize(&count, words);
  if (const char* folder = std::getenv("DML_TABLES"))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (const std::string path = entry.path(); path.ends_with(".parquet") || path.ends_with(".arrow"))
        benchmark::RegisterBenchmark(entry.path().filename().c_str(), [path](benchmark::State& state) { read_rows(state, path); })
            ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
}
