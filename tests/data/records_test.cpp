#include "data/records.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>

#include "core/error.h"
#include "data/file_names.h"
#include "data/fixtures.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Records : public FolderTest {
 protected:
  std::vector<SourceFile> find(const std::string& path) {
    entry.path = path;
    return find_sources(entry);
  }
  // "LINE {…}" for every row.
  std::vector<std::string> read(const std::string& path) {
    std::vector<std::string> out;
    for (auto& source : find(path)) {
      RowReader reader(source);
      Json record;
      for (RawRow row; reader.next(row);) {
        reader.parse(row, record);
        out.push_back(fmt::format("{} {}", row.line, dump(record)));
      }
    }
    return out;
  }
  DatasetEntry entry;
};

TEST_F(Records, ReadsJsonLinesWithMarksCarriageReturnsAndGaps) {
  EXPECT_THAT(read(write("a.jsonl", "\xef\xbb\xbf{\"a\":1}\r\n\n  \n{\"a\":2}")),
              ElementsAre(R"(1 {"a":1})", R"(4 {"a":2})"));
}

TEST_F(Records, ReadsAnArrayOfAnyNameAndLayout) {
  const std::string text = "[\n  {\"a\": \"],{\\\"\"},\n\n  {\"b\":\n [1, {}]}\n]\n";
  EXPECT_THAT(read(write("a.json", text)), ElementsAre("1 {\"a\":\"],{\\\"\"}", R"(2 {"b":[1,{}]})"));
  EXPECT_THAT(read(write("a.jsonl", text)), ElementsAre("1 {\"a\":\"],{\\\"\"}", R"(2 {"b":[1,{}]})"));
  EXPECT_EQ(find(path("a.jsonl"))[0].reason, "starts with '['");
}

TEST_F(Records, ReadsCsvAndTsvAndText) {
  EXPECT_THAT(read(write("a.csv", "q,\"a b\"\r\n1,\"x, \"\"y\"\"\nz\"\n,2\n")),
              ElementsAre(R"(2 {"q":"1","a b":"x, \"y\"\nz"})", R"(4 {"q":"","a b":"2"})"));
  EXPECT_THAT(read(write("a.tsv", "q\ta\n1\t2\"\n\"x,\"\"\t\"\t\"y\nz\"\n")),
              ElementsAre(R"(2 {"q":"1","a":"2\""})", R"(3 {"q":"x,\"\t","a":"y\nz"})"));
  EXPECT_THAT(read(write("a.txt", "one\n\ntwo\n")), ElementsAre(R"(1 {"text":"one"})", R"(3 {"text":"two"})"));
}

TEST_F(Records, DetectsTheDelimiterOfACsv) {
  EXPECT_THAT(read(write("a.csv", "Frage;Antwort\n\"a;b\";1,5\n;;\n;\nc;\"d\"\n")),
              ElementsAre(R"(2 {"Frage":"a;b","Antwort":"1,5"})", R"(5 {"Frage":"c","Antwort":"d"})"));
  EXPECT_EQ(find(path("a.csv"))[0].reason, "extension .csv, with semicolons between the columns");
  EXPECT_THAT(read(write("b.csv", "q\t\"a,b;c\"\n1\t\"x\ny\"\n")), ElementsAre(R"(2 {"q":"1","a,b;c":"x\ny"})"));
  EXPECT_THAT(read(write("c.csv", "q,a;b\n1,2\n")), ElementsAre(R"(2 {"q":"1","a;b":"2"})"));
  // pandas writes its index in a column without a name.
  // As Python's csv reads it: inches are no quotes.
  EXPECT_THAT(read(write("e.csv", "q,a\n5\" pipe,6\" pipe\nb,\"c\"d\n")),
              ElementsAre(R"(2 {"q":"5\" pipe","a":"6\" pipe"})", R"(3 {"q":"b","a":"cd"})"));
  EXPECT_THAT(read(write("d.csv", ",q\n0,x\n")), ElementsAre(R"(2 {"Unnamed: 0":"0","q":"x"})"));
}

TEST_F(Records, ReadsAFileAsOneDocument) {
  entry.ds_type = "document";
  EXPECT_THAT(read(write("a.txt", "\n# One\r\n\r\n\r\ntwo\n  three\n\n")),
              ElementsAre("2 {\"text\":\"# One\\n\\n\\ntwo\\n  three\"}"));
  entry.ds_type.reset();
  EXPECT_THAT(read(write("b.md", "one\n\ntwo")), ElementsAre(R"(1 {"text":"one\n\ntwo"})"));
}

TEST_F(Records, CutsALongDocumentAtBlankLines) {
  entry.ds_type = "document";
  std::string text, joined;
  for (int i = 0; text.size() < (std::size_t{3} << 20); ++i)
    text += fmt::format("line {}\n{}", i, i % 100 == 99 ? "\n" : "");
  std::vector<std::string> rows;
  for (auto& source : find(write("a.txt", text))) {
    RowReader reader(source);
    for (RawRow row; reader.next(row);) rows.push_back(row.text);
  }
  ASSERT_EQ(rows.size(), 3u);
  for (auto& row : rows) joined += row + "\n\n";
  EXPECT_EQ(joined.substr(0, text.size() - 1), text.substr(0, text.size() - 1));
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    EXPECT_GE(rows[i].size(), std::size_t{1} << 20);
    EXPECT_LT(rows[i].size(), (std::size_t{1} << 20) + 2000);
  }
}

TEST_F(Records, CutsADocumentInALongRunOfBlankLines) {
  entry.ds_type = "document";
  const std::string blank(std::size_t{9} << 20, '\n');
  EXPECT_THAT(read(write("a.txt", blank + "a\n" + blank + "b\n")),
              ElementsAre(fmt::format("{} {{\"text\":\"a\"}}", blank.size() + 1),
                          fmt::format("{} {{\"text\":\"b\"}}", 2 * blank.size() + 2)));
}

TEST_F(Records, AFolderOfDocumentsIsItsTextFiles) {
  write("notes/b.md", "B");
  write("notes/a.txt", "A\n\nA");
  write("notes/rows.jsonl", "{}\n");
  write("notes/.hidden.txt", "no");
  entry.ds_type = "document";
  EXPECT_THAT(read(path("notes")), ElementsAre(R"(1 {"text":"A\n\nA"})", R"(1 {"text":"B"})"));
  entry.ds_type.reset();  // texts and Markdown beside rows are no data
  EXPECT_EQ(find(path("notes")).size(), 1u);
}

TEST_F(Records, NumberTheRowsOfAnArrayInAnyLayout) {
  const auto sources = find(write("a.json", "[{\"a\":1},{\"a\":2},{\"a\":3}]"));
  EXPECT_THAT(read(path("a.json")), ElementsAre(R"(1 {"a":1})", R"(2 {"a":2})", R"(3 {"a":3})"));
  EXPECT_EQ(sources[0].place(3), path("a.json") + ", row 3");
  EXPECT_EQ(find(write("a.jsonl", "{}\n"))[0].place(3), path("a.jsonl") + ":3");
}

TEST_F(Records, DistinguishALoopOfLinksFromAMissingFile) {
  std::filesystem::create_symlink(path("a.jsonl"), path("b.jsonl"));
  std::filesystem::create_symlink(path("b.jsonl"), path("a.jsonl"));
  EXPECT_EQ(error_of<UserError>([&] { find(path("a.jsonl")); }),
            path("a.jsonl") + ": is a symbolic link that cannot be followed: Too many levels of symbolic links");
  EXPECT_THAT(error_of<UserError>([&] { find(path("")); }), HasSubstr("Too many levels of symbolic links"));
  EXPECT_THAT(error_of<UserError>([&] { find(path("nowhere/")); }), HasSubstr("nowhere/: no such directory"));
  EXPECT_THAT(error_of<UserError>([&] { find(path("nowhere/x.jsonl")); }), HasSubstr("there is no directory"));
}

TEST_F(Records, UnpacksGzipAndZstd) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += fmt::format("{{\"row\":{}}}\n", i);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  EXPECT_EQ(read(write("a.jsonl.zst", packed)).size(), 100000u);
  EXPECT_THAT(error_of<UserError>([&] { read(write("b.jsonl.zst", packed.substr(0, packed.size() / 2))); }),
              HasSubstr("ends early"));

  gzFile gz = gzopen(path("a.jsonl.gz").c_str(), "wb");
  gzwrite(gz, text.data(), static_cast<unsigned>(text.size()));
  gzclose(gz);
  EXPECT_EQ(read(path("a.jsonl.gz")).size(), 100000u);
  std::filesystem::resize_file(path("a.jsonl.gz"), std::filesystem::file_size(path("a.jsonl.gz")) / 2);
  EXPECT_THAT(error_of<UserError>([&] { read(path("a.jsonl.gz")); }), HasSubstr("ends early"));
}

std::string bytes_of(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

// {"a":1} and {"a":2}, a line each, packed by Python's lzma and bz2, and lz4.
TEST_F(Records, UnpacksXzBzip2AndLz4) {
  const auto rows = ElementsAre(R"(1 {"a":1})", R"(2 {"a":2})");
  const std::string
      xz = bytes_of(
          "fd377a585a000004e6d6b4460200210116000000742fe5a301000f7b2261223a317d0a7b2261223a327d0a00145f110279f70dcc0001"
          "2810e50b6c601fb6f37d010000000004595a"),
      bz2 = bytes_of(
          "425a6839314159265359229de2e900000659800010100030102000000a2000310c0812807a89c226868be2ee48a70a120453bc5d20"),
      lz4 = bytes_of("04224d186440a7100000807b2261223a317d0a7b2261223a327d0a00000000623ab3db");
  EXPECT_THAT(read(write("d/a.jsonl.xz", xz)), rows);
  EXPECT_EQ(find(path("d/a.jsonl.xz"))[0].reason, "extension .jsonl");
  EXPECT_THAT(read(write("a.jsonl.bz2", bz2)), rows);
  EXPECT_THAT(read(write("a.jsonl.lz4", lz4)), rows);
  EXPECT_THAT(read(write("twice.jsonl.xz", xz + xz)).size(), 4u);
  EXPECT_THAT(read(path("d")), rows);
  for (const auto& [name, packed] : {std::pair{"cut.jsonl.xz", xz}, {"cut.jsonl.bz2", bz2}, {"cut.jsonl.lz4", lz4}})
    EXPECT_THAT(error_of<UserError>([&] { read(write(name, packed.substr(0, packed.size() / 2))); }),
                HasSubstr(std::string(name) + ": the compressed data is damaged or ends early"));
}

// A .tar of a few files: a header of 512 bytes before each, filled up to 512 (POSIX ustar).
std::string tar_of(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string out;
  for (const auto& [name, text] : files) {
    std::string head(512, '\0');
    name.copy(head.data(), 100);
    fmt::format("{:07o}", 0644).copy(head.data() + 100, 7);
    fmt::format("{:011o}", text.size()).copy(head.data() + 124, 11);
    head[156] = '0';
    std::string("ustar\00000", 8).copy(head.data() + 257, 8);
    head.replace(148, 8, 8, ' ');
    unsigned sum = 0;
    for (unsigned char c : head) sum += c;
    fmt::format("{:06o}", sum).copy(head.data() + 148, 7);
    head[154] = '\0';
    out += head + text + std::string((512 - text.size() % 512) % 512, '\0');
  }
  return out + std::string(1024, '\0');
}

TEST_F(Records, ReadsFilesInArchives) {
  const std::string tar = tar_of({{"data/train-0.jsonl", "{\"a\":1}\n{\"a\":2}\n"},
                                  {"data/test-0.jsonl", "{\"a\":9}\n"},
                                  {"._junk.jsonl", "no"},
                                  {"notes.md", "no"},
                                  {"data/train-1.jsonl", "{\"a\":3}\n"}});
  const std::string path = write("rows.tar", tar);
  EXPECT_THAT(read(path), ElementsAre(R"(1 {"a":1})", R"(2 {"a":2})", R"(1 {"a":3})"));
  EXPECT_EQ(find(path)[0].path, path + "::data/train-0.jsonl");
  entry.split = "test";
  EXPECT_THAT(read(path), ElementsAre(R"(1 {"a":9})"));
  entry.split = "train";
  entry.data_files = {"data/*-0.jsonl"};
  EXPECT_EQ(find(path).size(), 2u);
  entry.data_files = {"*-0.jsonl"};  // as on the disk, `*` stays within a folder
  EXPECT_THAT(error_of<UserError>([&] { find(path); }), HasSubstr("no file of the archive matches data_files"));
  entry.data_files = {"**/*-0.jsonl"};
  EXPECT_EQ(find(path).size(), 2u);
  entry.data_files = {"none-*"};
  EXPECT_THAT(error_of<UserError>([&] { find(path); }), HasSubstr("no file of the archive matches data_files"));
  entry.data_files.clear();
  std::string packed(ZSTD_compressBound(tar.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), tar.data(), tar.size(), 3));
  EXPECT_EQ(read(write("rows.tar.zst", packed)).size(), 3u);
  EXPECT_NE(stream_digest(path + "::data/train-0.jsonl"), stream_digest(path + "::data/train-1.jsonl"));
  EXPECT_THAT(error_of<UserError>([&] { find(write("cut.tar.zst", packed.substr(0, packed.size() / 2))); }),
              HasSubstr("cannot be read as an archive"));
  EXPECT_THAT(error_of<UserError>([&] {
                find(write("twice.tar", tar_of({{"a.jsonl", "{}\n"}, {"a.jsonl", "{}\n"}})));
              }),
              HasSubstr("holds two files named 'a.jsonl'"));
  EXPECT_THAT(error_of<UserError>([&] {
                find(write("none.tar", tar_of({{"a.bin", "x"}})));
              }),
              HasSubstr("the archive has no file of rows"));
  EXPECT_THAT(error_of<UserError>([&] {
                find(write("table.tar", tar_of({{"a.parquet", "PAR1"}})));
              }),
              HasSubstr("unpack the archive"));
}

TEST_F(Records, FindsFilesOfFoldersPatternsAndLists) {
  write("d/b.jsonl", "{}\n");
  write("d/a.json", "[{}]");
  write("d/.hidden.json", "[");
  write("d/readme.md", "no");
  write("d/prepared/0a/ids.safetensors", "");
  write("d/prepared/0a/dropped.jsonl", "{}\n");
  EXPECT_EQ(find(path("d")).size(), 2u);
  EXPECT_EQ(find(path("d"))[0].path, path("d/a.json"));
  EXPECT_EQ(find(path("d/*.jsonl")).size(), 1u);
  entry.data_files = {"b.jsonl"};
  EXPECT_EQ(find(path("d"))[0].path, path("d/b.jsonl"));
  EXPECT_EQ(find(path("d/a.json"))[0].path, path("d/a.json"));  // a file has no files inside
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(path("."));
  entry.data_files = {"d/b.jsonl"};  // of the working directory, as `datasets` reads it
  EXPECT_EQ(find(path("d"))[0].path, "d/b.jsonl");
  std::filesystem::current_path(before);
  entry.data_files = {"none.jsonl"};
  EXPECT_THAT(error_of<UserError>([&] { find(path("d")); }),
              HasSubstr("d/none.jsonl: no such file or directory; data_files are names inside " + path("d")));
  entry.data_files.clear();
  write("m/train.jsonl", "{}\n");
  write("m/valid.jsonl", "{}\n");
  EXPECT_EQ(find(path("m")).size(), 1u);
  entry.split = "valid";
  EXPECT_EQ(find(path("m"))[0].path, path("m/valid.jsonl"));
}

TEST_F(Records, FindsSplitsByWordsInNames) {
  for (const char* name : {"w/wiki_train.jsonl", "w/wiki-test-00000.jsonl", "w/wiki.valid.jsonl", "w/trainer.jsonl"})
    write(name, "{}\n");
  EXPECT_EQ(find(path("w")).size(), 2u);  // trainer.jsonl begins with the split
  entry.split = "test";
  EXPECT_EQ(find(path("w"))[0].path, path("w/wiki-test-00000.jsonl"));
  entry.split = "validation[:1]";
  EXPECT_EQ(find(path("w"))[0].path, path("w/wiki.valid.jsonl"));
  entry.split = "evaluation";
  EXPECT_EQ(find(path("w"))[0].path, path("w/wiki-test-00000.jsonl"));

  entry.split = "train";
  write("n/rows.jsonl", "{}\n");
  write("n/test.jsonl", "{}\n");
  ASSERT_EQ(find(path("n")).size(), 1u);
  EXPECT_EQ(find(path("n"))[0].path, path("n/rows.jsonl"));
  write("only/test.jsonl", "{}\n");
  EXPECT_EQ(find(path("only")).size(), 1u);
}

TEST_F(Records, AddsUpSplits) {
  for (const char* name : {"w/train-0.jsonl", "w/train-1.jsonl", "w/test.jsonl", "w/valid.jsonl"}) write(name, "{}\n");
  std::vector<std::string> found;
  entry.split = "train+test";
  for (const SourceFile& file : find(path("w"))) found.push_back(file.path);
  EXPECT_THAT(found, ElementsAre(path("w/train-0.jsonl"), path("w/train-1.jsonl"), path("w/test.jsonl")));
  entry.split = "validation + train";
  EXPECT_EQ(find(path("w")).size(), 3u);
  EXPECT_EQ(find(path("w/test.jsonl")).size(), 1u);  // a file is named: taken once
  EXPECT_THAT(wanted_files(entry, path("w"), {"train-0.jsonl", "valid.jsonl", "test.jsonl"}),
              ElementsAre("train-0.jsonl", "valid.jsonl"));
  entry.split = "train+more";
  EXPECT_THAT(error_of<UserError>([&] { find(path("w")); }), HasSubstr("named after split 'more'"));
  entry.split = "train+";
  EXPECT_THAT(error_of<UserError>([&] { find(path("w")); }), HasSubstr("split 'train+' must look like train+test"));
  entry.split = "train[:2]+test";
  EXPECT_THAT(error_of<UserError>([&] { find(path("w")); }),
              HasSubstr("slices cannot be added up; make each one an entry of datasets"));
}

TEST_F(Records, SkipsDescriptionsOfArrowFiles) {
  write("s/data.jsonl", "{}\n");
  write("s/dataset_info.json", "{\n \"features\": {}\n}");
  write("s/state.json", "{}");
  ASSERT_EQ(find(path("s")).size(), 1u);
  EXPECT_EQ(find(path("s"))[0].path, path("s/data.jsonl"));
}

TEST_F(Records, AFolderOfSaveToDiskIsTheFilesThatItsStateNames) {
  const std::string stream = "\xff\xff\xff\xff";
  for (const char* name : {"data-00000-of-00001.arrow", "data-00001-of-00002.arrow", "cache-abc123.arrow"})
    write(std::string("s/train/") + name, stream);
  write("s/dataset_dict.json", "{\"splits\": [\"train\"]}");
  write("s/train/state.json", R"({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]})");
  ASSERT_EQ(find(path("s")).size(), 1u);
  EXPECT_EQ(find(path("s"))[0].path, path("s/train/data-00000-of-00001.arrow"));
  write("s/train/state.json", R"({"_data_files": [{"filename": "data-00000-of-00001.arrow"}],
                                  "_indices_data_files": [{"filename": "indices.arrow"}]})");
  EXPECT_THAT(error_of<UserError>([&] { find(path("s")); }), HasSubstr("flatten_indices()"));

  write("cache/alpaca.arrow", stream);  // the cache of load_dataset() has no state.json
  write("cache/cache-0123456789abcdef.arrow", stream);
  write("cache/cache-0123456789abcdef_00000_of_00002.arrow", stream);
  write("cache/cache-of-questions.arrow", stream);
  ASSERT_EQ(find(path("cache")).size(), 2u);
  EXPECT_EQ(find(path("cache"))[1].path, path("cache/cache-of-questions.arrow"));
}

TEST_F(Records, WarnsOfFilesOfAFolderThatAreNotRead) {
  write("d/a.jsonl", "{}\n");
  write("d/b.jsonlines", "{}\n");
  write("d/c.jsonl.br", "no");
  write("d/z.zip", "no");
  write("d/LICENSE", "no");
  testing::internal::CaptureStderr();
  EXPECT_EQ(find(path("d")).size(), 2u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("d: files that are not read: c.jsonl.br, z.zip ("));
  write("only/z.zip", "no");
  EXPECT_THAT(error_of<UserError>([&] { find(path("only")); }), HasSubstr("files that are not read: z.zip ("));
}

TEST_F(Records, WarnOfFilesWithoutASplitBesideThoseOfTrain) {
  for (const char* name : {"d/training_data.jsonl", "d/more.jsonl", "d/test.jsonl"}) write(name, "{}\n");
  const auto warnings_of = [&](const std::string& split) {
    entry.split = split;
    testing::internal::CaptureStderr();
    EXPECT_EQ(find(path("d")).size(), 1u);
    return testing::internal::GetCapturedStderr();
  };
  const std::string train = warnings_of("train");
  EXPECT_THAT(train, HasSubstr("other files are named after split 'train', so these are not read: more.jsonl; "
                               "data_files chooses the files"));
  EXPECT_THAT(train, Not(HasSubstr("test.jsonl")));
  EXPECT_EQ(warnings_of("test"), "");
}

TEST_F(Records, TwoSplitsWarnOnceOfWhatNeitherReads) {
  for (const char* name : {"d/rows.jsonl", "d/test.jsonl", "d/valid.jsonl", "d/z.zip"}) write(name, "{}\n");
  entry.split = "train+test";
  testing::internal::CaptureStderr();
  EXPECT_EQ(find(path("d")).size(), 2u);
  const std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_EQ(warnings.find("files that are not read: z.zip"), warnings.rfind("files that are not read: z.zip"));
  EXPECT_THAT(warnings, HasSubstr("files of other splits are not read: valid.jsonl;"));
}

TEST_F(Records, AllFilesOfAFolderAreThoseOfAnySplit) {
  for (const char* name : {"d/train.jsonl", "d/other.jsonl", "d/test.json", "d/notes.txt", "d/page.md"})
    write(name, "{}\n");
  testing::internal::CaptureStderr();
  const std::vector<SourceFile> found = find_all_sources(path("d"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0].path, path("d/notes.txt"));
  EXPECT_EQ(found[0].form, RowForm::document);
  EXPECT_EQ(found[4].form, RowForm::json_lines);
  std::filesystem::create_directory(path("empty"));
  EXPECT_THAT(error_of<UserError>([&] { find_all_sources(path("empty")); }), HasSubstr("the directory has no .json"));
}

TEST_F(Records, RefusesCompressedTables) {
  for (const auto& [name, text] : {std::pair{"a.parquet.gz", "PAR1"}, {"a.arrow.gz", "ARROW1"}}) {
    gzFile gz = gzopen(path(name).c_str(), "wb");
    gzputs(gz, text);
    gzclose(gz);
    EXPECT_THAT(error_of<UserError>([&] { find(path(name)); }),
                HasSubstr("files are not supported; decompress the file first"));
  }
  EXPECT_EQ(find(write("a.parquet", "PAR1"))[0].form, RowForm::parquet);
}

TEST_F(Records, TextFilesBesideRowsAreNoRows) {
  write("d/data.jsonl", "{\"a\":1}\n");
  write("d/notes.txt", "a note\n");
  write("d/LICENSE.txt", "a license\n");
  testing::internal::CaptureStderr();
  EXPECT_THAT(read(path("d")), ElementsAre(R"(1 {"a":1})"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("text files beside files of rows are not read as rows: LICENSE.txt, notes.txt; data_files"));
  EXPECT_THAT(wanted_files(entry, path("d"), {"data.jsonl", "notes.txt"}), ElementsAre("data.jsonl"));
  EXPECT_THAT(read(write("r.tar", tar_of({{"data.jsonl", "{\"a\":1}\n"}, {"README.txt", "no\n"}}))),
              ElementsAre(R"(1 {"a":1})"));
  entry.ds_type = "text";
  EXPECT_EQ(find(path("d")).size(), 3u);
  entry.ds_type.reset();
  write("t/a.txt", "a\n");
  write("t/b.txt", "b\n");
  EXPECT_EQ(find(path("t")).size(), 2u);
}

TEST_F(Records, TwoStarsAreAnyNumberOfFolders) {
  for (const char* name : {"d/top.jsonl", "d/a/one.jsonl", "d/a/b/two.jsonl", "d/c/two.csv", "d/.git/hidden.jsonl"})
    write(name, "{}\n");
  const auto names = [&](const std::string& pattern) {
    std::vector<std::string> out;
    for (const SourceFile& file : find(path(pattern))) out.push_back(file.path.substr(path("").size()));
    return out;
  };
  const auto all = ElementsAre("d/a/b/two.jsonl", "d/a/one.jsonl", "d/top.jsonl");
  EXPECT_THAT(names("d/**/*.jsonl"), all);
  EXPECT_THAT(names("**/*.jsonl"), all);
  EXPECT_THAT(names("d/a/**"), ElementsAre("d/a/b/two.jsonl", "d/a/one.jsonl"));
  EXPECT_THAT(names("d/**/b/*.jsonl"), ElementsAre("d/a/b/two.jsonl"));
  EXPECT_THAT(names("{d/a/**/t*,d/top}.jsonl"), ElementsAre("d/a/b/two.jsonl", "d/top.jsonl"));
  EXPECT_THAT(names("?/*/*.jsonl"), ElementsAre("d/a/one.jsonl"));
  entry.data_files = {"**/*.jsonl"};
  EXPECT_THAT(names("d"), all);
  EXPECT_THAT(wanted_files(entry, "", {"top.jsonl", "a/b/two.jsonl", "c/two.csv"}),
              ElementsAre("top.jsonl", "a/b/two.jsonl"));
  entry.data_files.clear();
  EXPECT_THAT(error_of<UserError>([&] { names("d/**.jsonl"); }), HasSubstr("'**' stands for folders; write **/"));
}

TEST_F(Records, RejectsAnUnknownSplitOrSubset) {
  write("m/train.jsonl", "{}\n");
  entry.split = "test";
  EXPECT_THAT(error_of<UserError>([&] { find(path("m")); }),
              HasSubstr("no file of this directory is named after split 'test'"));
  EXPECT_EQ(find(path("m/train.jsonl")).size(), 1u);  // a file is named: taken, with a warning
  entry.split = "train[:1]";
  entry.name = "en";
  EXPECT_THAT(error_of<UserError>([&] { find(path("m")); }), HasSubstr("has no subdirectory 'en'"));
  write("m/en/a.jsonl", "{}\n");
  EXPECT_EQ(find(path("m"))[0].path, path("m/en/a.jsonl"));
}

struct Bad {
  const char* name;
  std::string file, content, error;  // part of the message
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadFile : public Records, public ::testing::WithParamInterface<Bad> {};

TEST_P(BadFile, IsRefusedInOneLineWithItsPlace) {
  std::string error = error_of<UserError>([&] { read(write(GetParam().file, GetParam().content)); });
  EXPECT_THAT(error, HasSubstr(GetParam().error));
  EXPECT_THAT(error, HasSubstr(GetParam().file));
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadFile,
    ::testing::Values(
        Bad{"empty", "a.jsonl", "", "the file is empty"}, Bad{"blank", "a.jsonl", "\n \n\n", "the file is empty"},
        Bad{"not_json", "a.jsonl", "hello\n", "a.jsonl:1: not valid JSON"},
        Bad{"later_line", "a.jsonl", "{}\n{}\n{\"a\": }\n", "a.jsonl:3: not valid JSON"},
        Bad{"truncated", "a.jsonl", "{\"a\": 1}\n{\"a\": \"b",
            "this is the last line and it has no newline; is the file complete?"},
        Bad{"number_row", "a.jsonl", "{}\n7\n", "a.jsonl:2: a row must be an object {…}, is 7"},
        Bad{"array_row", "a.jsonl", "{}\n[1]\n", "a.jsonl:2: a row must be an object {…}, is [1]"},
        Bad{"array_of_numbers", "a.json", "[1, 2]", "a.json, row 1: a row must be an object {…}, is 1"},
        Bad{"duplicate_key", "a.jsonl", "{\"a\": 1, \"a\": 2}\n", "a.jsonl:1: key 'a' is given twice"},
        Bad{"deep", "a.jsonl", "{\"a\":" + std::string(100000, '[') + "\n", "a.jsonl:1: nested deeper than 64 levels"},
        Bad{"surrogate", "a.jsonl", "{\"a\": \"\\ud800\"}\n", "a.jsonl:1: not valid JSON"},
        Bad{"bad_utf8", "a.jsonl", "{\"a\": \"\xff\"}\n", "a.jsonl:1: not valid JSON"},
        Bad{"nul", "a.jsonl", std::string("{\"a\": \"\0\"}\n", 11), "a.jsonl:1: not valid JSON"},
        Bad{"open_array", "a.json", "[{\"a\": 1},\n", "the array is not closed; is the file complete?"},
        Bad{"comma_at_end", "a.json", "[{\"a\": 1},\n]", "a.json:2: a comma is not followed by an element"},
        Bad{"behind_array", "a.json", "[{\"a\": 1}]\n{}", "a.json:2: text after the end of the array"},
        Bad{"closed_twice", "a.json", "[{\"a\": 1}}]", "a.json, row 1: not valid JSON"},
        Bad{"utf16", "a.jsonl", std::string("\xff\xfe{\0", 4), "is UTF-16"},
        Bad{"binary", "a.bin", std::string("\x7f\x45LF\0\0", 6), "is not a text file"},
        Bad{"parquet", "a.parquet", "PAR1xxxx", "too short for a Parquet file"},
        Bad{"arrow", "a.arrow", "ARROW1xx", "it does not end with 'ARROW1'"},
        Bad{"feather", "a.arrow", "FEA1xxxx", "it is Feather 1, an older format"},
        Bad{"archive", "a.zip", "PK\x03\x04garbage", "cannot be read as an archive"},
        Bad{"text_utf8", "a.txt", "good\nb\xff\n", "a.txt:2: byte 2 is not UTF-8"},
        Bad{"csv_width", "a.csv", "a,b\n1,2\n3\n", "a.csv:3: 1 fields, but the header line has 2"},
        Bad{"csv_quote", "a.csv", "a\n\"open\n", "a.csv:2: a quoted field is not closed"},
        Bad{"object_over_lines", "a.json", "{\n  \"a\": 1\n}\n", "as an element of a JSON array"},
        Bad{"csv_twice", "a.csv", "a,a\n1,2\n", "column name 'a' occurs twice"},
        Bad{"large_row", "a.jsonl", "{\"a\": \"" + std::string(RowReader::kLargestRow, 'x') + "\"}\n",
            "a.jsonl:1: the row has more than 8 MiB"},
        Bad{"damaged_gzip", "a.jsonl.gz", "\x1f\x8b\x08garbage", "the gzip data"},
        Bad{"damaged_zstd", "a.jsonl.zst", "\x28\xb5\x2f\xfdgarbage", "the zstd data"}),
    [](auto& test) { return test.param.name; });

TEST_F(Records, NamesTheNearestFileForOneThatIsMissing) {
  write("train.jsonl", "{}\n");
  EXPECT_EQ(error_of<UserError>([&] { find(path("trian.jsonl")); }),
            path("trian.jsonl") + ": no such file or directory; did you mean 'train.jsonl'?");
  EXPECT_THAT(error_of<UserError>([&] { find("tatsu-lab/alpaca"); }),
              HasSubstr("dml fetch --dataset tatsu-lab/alpaca"));
  EXPECT_THAT(error_of<UserError>([&] { find(path("*.csv")); }), HasSubstr("no file matches this pattern"));
  EXPECT_THAT(error_of<UserError>([&] { write("empty/x.md", ""), find(path("empty")); }),
              HasSubstr("the directory has no .json"));
}

TEST_F(Records, RefusesPipesAndFollowsLinks) {
  ASSERT_EQ(mkfifo(path("pipe.jsonl").c_str(), 0600), 0);
  EXPECT_THAT(error_of<UserError>([&] { find(path("pipe.jsonl")); }), HasSubstr("is a pipe or device, not a file"));
  write("a.jsonl", "{\"a\":1}\n");
  std::filesystem::create_symlink(path("a.jsonl"), path("link.jsonl"));
  EXPECT_EQ(read(path("link.jsonl")).size(), 1u);
}

}  // namespace
}  // namespace dml
