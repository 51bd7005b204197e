// Parquet: a file of DuckDB row by row; files of other writers with their rows, and damaged ones, where ../shared/data
// has them; mutations, of which each gives rows or one line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "data/codecs.h"
#include "data/json_values.h"
#include "data/parquet/encodings.h"
#include "data/parquet/rows.h"
#include "data/parquet/thrift.h"
#include "data/parquet/value_json.h"
#include "data/records.h"
#include "temporary_folder.h"

namespace dml::parquet {
namespace {

namespace fs = std::filesystem;
const std::string kFiles = DML_SOURCE_DIR "/../shared/data/parquet/";

// {id 1, messages [{user, hi}, {assistant, yo}], tag "a"}, {2, [], null}, {3, null, "a"}; written by DuckDB with
// Snappy.
constexpr std::string_view kChat =
    "504152311500152415282c150615001506150600001244020000000601010000000200000003000000150015be0215622c1508150015061506"
    "00009f011821000000410200760100006101250064762400ee0100050150040000007573657209000000617373697374616e74150015ac0215"
    "502c1508150015061506000096011821000000410200760100006101250064762400ee010005012c02000000686902000000796f1500155e15"
    "2e2c150615001506150600002f182100000041050076010024010000006101000000611502198c3500180d6475636b64625f736368656d6115"
    "06001502250218026964252200350218086d657373616765731502150600350418046c69737415020035021807656c656d656e74150400150c"
    "25021804726f6c65250000150c25021807636f6e74656e74250000150c250218037461672500001606191c194c26001c150219150019180269"
    "64150216061646164a26083c1804030000001804010000001600280403000000180401000000111100000026001c150c1915001948086d6573"
    "7361676573046c69737407656c656d656e7404726f6c651502160816e20216860126523c1804757365721809617373697374616e7416042804"
    "757365721809617373697374616e74111100000026001c150c1915001948086d65737361676573046c69737407656c656d656e7407636f6e74"
    "656e741502160816d002167426d8013c1802796f1802686916042802796f18026869111100000026001c150c19150019180374616715021606"
    "168001165026cc023c1801611801611602280161180161111100000016f806160626081694030028284475636b44422076657273696f6e2076"
    "312e352e3620286275696c64203036396363396639623529194c1c00001c00001c00001c000000cc01000050415231";

std::string bytes_of(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

std::vector<Json> rows_of(const std::string& path) {
  Rows rows(path);
  std::vector<Json> out;
  for (std::string text; rows.next(text);) out.push_back(parse_json(text, path));
  return out;
}

TEST(Parquet, ChatsAreReadAsTheyWereWritten) {
  const testing_tools::TemporaryFolder folder;
  write_file(folder / "a.parquet", bytes_of(kChat));
  const std::vector<Json> rows = rows_of(folder / "a.parquet");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(dump(rows[0]),
            R"({"id":1,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}],"tag":"a"})");
  EXPECT_EQ(dump(rows[1]), R"({"id":2,"messages":[],"tag":null})");
  EXPECT_EQ(dump(rows[2]), R"({"id":3,"messages":null,"tag":"a"})");
}

TEST(Parquet, RowsOfADatasetAreNumbered) {
  const testing_tools::TemporaryFolder folder;
  const std::string path = folder / "a.parquet";
  write_file(path, bytes_of(kChat));
  RowReader reader({path, RowForm::parquet, "", ','});
  RawRow row;
  Json record;
  std::int64_t ids = 0;
  while (reader.next(row)) {
    reader.parse(row, record);
    ids = ids * 10 + record["id"].get<std::int64_t>();
  }
  EXPECT_EQ(ids, 123);
  EXPECT_EQ(SourceFile({path, RowForm::parquet, "", ','}).place(2), path + ", row 2");
}

TEST(Parquet, FilesOfManyWritersGiveTheirRows) {
  if (!fs::exists(kFiles)) GTEST_SKIP() << "no ../shared/data";
  int files = 0;
  for (auto& entry : fs::directory_iterator(kFiles + "rows")) {
    if (entry.path().extension() != ".parquet") continue;
    SCOPED_TRACE(entry.path().filename());
    ++files;
    const Json expected = read_json(fs::path(entry.path()).replace_extension(".json"));
    const std::vector<Json> rows = rows_of(entry.path());
    ASSERT_EQ(rows.size(), expected.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Json values = Json::array();
      for (auto& [name, value] : rows[i].items()) values.push_back(value);
      ASSERT_EQ(WideJson(values), WideJson(expected[i])) << "row " << i;  // in whatever order of keys
    }
  }
  EXPECT_EQ(files, 10);
}

TEST(Parquet, DamagedFilesAreOneLine) {
  if (!fs::exists(kFiles)) GTEST_SKIP() << "no ../shared/data";
  for (auto [name, says] : {std::pair{"ARROW-GH-41317", "'timestamp_us_no_tz'"},
                            {"ARROW-GH-47662", "row group 0, column"},
                            {"ARROW-RS-GH-6229-LEVELS", "row group 0, column"}}) {
    SCOPED_TRACE(name);
    try {
      rows_of(kFiles + "damaged/" + name + ".parquet");
      ADD_FAILURE() << "it was read";
    } catch (const UserError& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr(says));
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_EQ(rows_of(kFiles + "damaged/ARROW-GH-43605.parquet").size(), 21186u);  // indices of 0 bits are allowed
}

// A changed file is read, or refused in one line; nothing else.
void mutate(const std::string& good, int rounds, const std::string& path) {
  std::mt19937 random(11);
  auto below = [&](std::size_t n) { return random() % n; };
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = good;
    for (std::size_t change = 0; change <= below(3); ++change) {
      const std::size_t at =
          below(4) == 0 ? below(bytes.size()) : bytes.size() - 1 - below(std::min<std::size_t>(bytes.size(), 500));
      if (below(8) == 0) bytes.resize(at);
      else bytes[at] = below(2) ? static_cast<char>(below(256)) : static_cast<char>(bytes[at] ^ (1 << below(8)));
      if (bytes.empty()) bytes = good;
    }
    std::filesystem::remove(path);  // a file that is overwritten waits for the disk
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      Rows rows(path);
      std::string text;
      for (int i = 0; i < 2000 && rows.next(text); ++i) {
      }
    } catch (const UserError& e) {
      ++refused;
      ASSERT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    }
  }
  EXPECT_GT(refused, rounds / 4);
}

TEST(Parquet, SurvivesMutations) {
  const testing_tools::TemporaryFolder folder;
  mutate(bytes_of(kChat), 1500, folder / "a.parquet");
  if (!fs::exists(kFiles)) return;
  for (const char* name :
       {"datapage_v2.snappy", "rowend_struct", "delta_length_byte_array", "concatenated_gzip_members"})
    mutate(read_file(kFiles + "rows/" + name + ".parquet"), 250, folder / "a.parquet");
}

TEST(Parquet, BlocksAreUnpackedExactly) {
  std::string out;
  EXPECT_EQ(unpack_block(Codec::snappy,
                         std::string_view("\x0b\x04"
                                          "ab"
                                          "\x15\x02",
                                          6),
                         11, out),
            "");  // "ab", then 11 − 2 from two back
  EXPECT_EQ(out, "abababababa");
  EXPECT_NE(unpack_block(Codec::snappy,
                         std::string_view("\x0b\x04"
                                          "ab"
                                          "\x15\x03",
                                          6),
                         11, out),
            "");  // from before the beginning
  EXPECT_NE(unpack_block(Codec::snappy,
                         std::string_view("\x0b\x04"
                                          "ab",
                                          4),
                         11, out),
            "");
  const std::string_view block(
      "\x14"
      "a"
      "\x01\x00\x50"
      "bcdef",
      10);  // "a", 8 from one back, "bcdef"
  EXPECT_EQ(unpack_block(Codec::lz4, block, 14, out), "");
  EXPECT_EQ(out, "aaaaaaaaabcdef");
  const std::string framed = std::string("\0\0\0\x0e\0\0\0\x0a", 8) + std::string(block);  // Hadoop's sizes in front
  for (const std::string& given : {framed, std::string(block)}) {
    EXPECT_EQ(unpack_block(Codec::lz4_hadoop, given, 14, out), "");
    EXPECT_EQ(out, "aaaaaaaaabcdef");
  }
  EXPECT_EQ(unpack_block(Codec::brotli, "\x06", 0, out), "");
  EXPECT_NE(unpack_block(Codec::brotli, "\x06", 1, out), "");
  EXPECT_NE(unpack_block(Codec::lz4, block, 15, out), "");
  EXPECT_NE(unpack_block(Codec::zstd, "no", 1 << 30, out), "");  // a size that is only said
  EXPECT_LT(out.capacity(), std::size_t{1} << 20);
  EXPECT_THAT(unpack_block(Codec::lzo, "", 0, out), testing::HasSubstr("a codec that dml does not have"));
}

TEST(Parquet, LevelsAreRunsAndPackedGroups) {
  std::vector<std::uint32_t> out;
  EXPECT_EQ(read_hybrid(std::string_view("\x06\x01\x03\x88\xc6\xfa", 6), 3, 11, out),
            6u);  // three 1s, then 0 … 7 in 3 bits
  EXPECT_THAT(out, testing::ElementsAre(1, 1, 1, 0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THROW(read_hybrid(std::string_view("\x03\x88", 2), 3, 8, out), PageProblem);
  EXPECT_EQ(read_bit_packed(std::string_view("\x05\x39\x77", 3), 3, 8, out), 3u);  // from the highest bit down
  EXPECT_THAT(out, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Parquet, AFieldNumberBeyond16BitsIsRefused) {
  const std::string far = "\x05\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01";      // a whole number, field 2^63 - 1
  const std::string bytes = far + "\x02" + "\x15\x02" + std::string(1, '\0');  // and the next field
  Thrift in(bytes, "a page");
  EXPECT_THAT([&] { in.fields([&](int, Thrift::Type type) { in.skip(type); }); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("a field with the number 9223372036854775807")));
}

std::string time_of(std::int64_t x, std::int64_t per_second) {
  std::string out;
  put_time(x, per_second, out);
  return out;
}

TEST(Parquet, TimesAreWrittenAsPythonDoesAtAnyDistance) {
  constexpr std::int64_t kNanos = 1'000'000'000;
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(time_of(kLeast, kNanos), "\"1677-09-21T00:12:43.145224\"");  // NaT of pandas
  EXPECT_EQ(time_of(kLeast, 1000), std::to_string(kLeast));
  EXPECT_EQ(time_of(-1, 1000), "\"1969-12-31T23:59:59.999000\"");
  EXPECT_EQ(time_of(999, kNanos), "\"1970-01-01T00:00:00\"");  // no microsecond
  EXPECT_EQ(time_of(1999, kNanos), "\"1970-01-01T00:00:00.000001\"");
}

TEST(Parquet, AJulianDayBeyondAllDatesIsNull) {
  Node node;
  node.physical = Physical::int96;
  for (auto [day, text] : {std::pair{2440589, "\"1970-01-02T00:00:01\""},
                           {std::numeric_limits<std::int32_t>::max(), "null"},
                           {std::numeric_limits<std::int32_t>::min(), "null"}}) {
    const std::int64_t nanos = 1'000'000'000;
    std::string bytes(12, '\0'), out;
    std::memcpy(bytes.data(), &nanos, 8);
    std::memcpy(bytes.data() + 8, &day, 4);
    Value value;
    value.bytes = bytes;
    put_value(value, node, out);
    EXPECT_EQ(out, text);
  }
}

}  // namespace
}  // namespace dml::parquet
