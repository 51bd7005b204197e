// Reads rows of Parquet and Arrow files as JSON on one thread: every file of the folder that DML_TABLES names
// (tools/make_tables.mjs FOLDER 200000). bytes_per_second counts the uncompressed bytes of the columns (the sum of
// total_uncompressed_size in the footer), for Arrow the bytes of the file; json_bytes_per_second counts the output.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "data/arrow/rows.h"
#include "data/parquet/rows.h"

namespace {

std::int64_t column_bytes(const std::string& path) {
  if (!path.ends_with(".parquet")) return static_cast<std::int64_t>(std::filesystem::file_size(path));
  const dml::parquet::Rows rows(path);
  std::int64_t bytes = 0;
  for (const auto& group : rows.footer().groups)
    for (const auto& chunk : group.chunks) bytes += chunk.unpacked;
  return bytes;
}

void read_rows(benchmark::State& state, const std::string& path) {
  std::int64_t bytes = 0;
  std::string row;
  for (auto _ : state) {
    std::unique_ptr<dml::TableRows> rows;
    if (path.ends_with(".parquet")) rows = std::make_unique<dml::parquet::Rows>(path);
    else rows = std::make_unique<dml::arrow::Rows>(path);
    while (rows->next(row)) bytes += static_cast<std::int64_t>(row.size());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * column_bytes(path));
  state.counters["json_bytes_per_second"] = {static_cast<double>(bytes), benchmark::Counter::kIsRate};
}

}  // namespace

int main(int count, char** words) {
  benchmark::Initialize(&count, words);
  if (const char* folder = std::getenv("DML_TABLES"))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (const std::string path = entry.path(); path.ends_with(".parquet") || path.ends_with(".arrow"))
        benchmark::RegisterBenchmark(entry.path().filename().c_str(), [path](benchmark::State& state) {
          read_rows(state, path);
        })->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
}
