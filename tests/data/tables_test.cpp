// Tables of many writers: files that tools/make_tables.mjs has made (DML_TABLES names their folder), row by row as
// their JSON lines; and Arrow files of tests/golden, whole and damaged.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "data/arrow/rows.h"
#include "data/parquet/rows.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<TableRows> open_table(const std::string& path) {
  if (path.ends_with(".parquet")) return std::make_unique<parquet::Rows>(path);
  return std::make_unique<arrow::Rows>(path);
}

void expect_its_json_lines(const std::string& path) {
  SCOPED_TRACE(path);
  std::ifstream lines(path + ".jsonl");
  const auto rows = open_table(path);
  std::string row, line;
  std::int64_t number = 0;
  while (std::getline(lines, line)) {
    ASSERT_TRUE(rows->next(row)) << "row " << number;
    ASSERT_EQ(WideJson::parse(row), WideJson::parse(line)) << "row " << number;
    ++number;
  }
  EXPECT_FALSE(rows->next(row)) << "more than " << number << " rows";
  EXPECT_GT(number, 0);
}

// Each changed file is read or refused in one line.
int refused_of_damaged(const std::string& path, int rounds, const std::string& scratch) {
  const std::string good = read_file(path);
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = good;
    for (unsigned change = 0; change <= random() % 3; ++change) {
      const std::size_t at = random() % bytes.size();
      // Metadata are where damage does most; they are near the ends.
      const std::size_t where = random() % 2   ? at
                                : random() % 2 ? at % std::min<std::size_t>(bytes.size(), 3000)
                                               : bytes.size() - 1 - at % std::min<std::size_t>(bytes.size(), 3000);
      if (random() % 10 == 0) bytes.resize(where + 1);
      else bytes[where] = static_cast<char>(random() % 2 ? random() % 256 : bytes[where] ^ (1 << random() % 8));
    }
    std::filesystem::remove(scratch);  // a file that is overwritten waits for the disk
    std::ofstream(scratch, std::ios::binary) << bytes;
    try {
      const auto rows = open_table(scratch);
      std::string row;
      for (int i = 0; i < 5000 && rows->next(row); ++i) {
      }
    } catch (const UserError& error) {
      ++refused;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  return refused;
}

std::vector<std::string> tables_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code none;
  for (fs::directory_iterator it(folder, none), end; !none && it != end; it.increment(none))
    if (it->path().extension() == ".parquet" || it->path().extension() == ".arrow") out.push_back(it->path());
  std::ranges::sort(out);
  return out;
}

const std::string kGolden = DML_SOURCE_DIR "/tests/golden/tables";

TEST(Tables, SmallFilesOfManyWritersGiveTheirRows) {
  const auto files = tables_in(kGolden);
  ASSERT_GE(files.size(), 6u);
  for (const std::string& path : files) expect_its_json_lines(path);
}

TEST(Tables, DamagedFilesAreReadOrRefusedInOneLine) {
  const testing_tools::TemporaryFolder folder;
  int refused = 0, rounds = 0;
  for (const std::string& path : tables_in(kGolden)) {
    refused += refused_of_damaged(path, 60, folder / ("damaged" + fs::path(path).extension().string()));
    rounds += 60;
  }
  EXPECT_GT(refused, rounds / 4);
}

TEST(Tables, LongEveryWriterAndCodec) {
  const char* folder = std::getenv("DML_TABLES");
  if (!folder) GTEST_SKIP() << "DML_TABLES names a folder that tools/make_tables.mjs has made";
  const auto files = tables_in(folder);
  ASSERT_GE(files.size(), 60u);
  for (const std::string& path : files) expect_its_json_lines(path);
  const testing_tools::TemporaryFolder scratch;
  const int rounds = 2000 / static_cast<int>(files.size()) + 1;
  int refused = 0;
  for (const std::string& path : files)
    refused += refused_of_damaged(path, rounds, scratch / ("damaged" + fs::path(path).extension().string()));
  std::printf("%zu files; %d damaged ones, %d of them refused\n", files.size(), rounds * static_cast<int>(files.size()),
              refused);
}

}  // namespace
}  // namespace dml
