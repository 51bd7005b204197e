#include "checkpoint/safetensors.h"

#include <sys/stat.h>

#include <cmath>

#include "core/bf16.h"
#include "core/json.h"
#include "core/memory_limits.h"
#include "fixture.h"

namespace dml {
namespace {
using namespace testing_tools;
using testing::HasSubstr;

std::string entry(const std::string& name, const std::string& rest) { return "{\"" + name + "\":" + rest + "}"; }
const std::string kGood = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

std::string open_refusal(const std::string& bytes) {
  TempDir dir;
  put(dir / "x.safetensors", bytes);
  std::string text = refusal([&] { SafetensorsFile file(dir / "x.safetensors"); });
  EXPECT_THAT(text, HasSubstr("x.safetensors"));
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  for (unsigned char c : text) EXPECT_GE(c, 0x20) << text;
  return text;
}

// ---- round trips

TEST(Safetensors, WhatIsWrittenIsReadBack) {
  TempDir dir;
  std::vector<float> values = {0, 1, -2.5f, 3e30f, 1e-40f, NAN};
  SafetensorsWriter out(dir / "x", {{"half", DType::f16, {3}},
                                    {"b \"q\" é", DType::bf16, {2, 3}},
                                    {"a", DType::f32, {3, 2}},
                                    {"scalar", DType::f64, {}},
                                    {"none", DType::f32, {0, 5}},
                                    {"flags", DType::boolean, {1}}});
  std::vector<std::string> order;
  for (auto& t : out.tensors()) {
    order.push_back(t.name);
    if (t.name == "flags") out.append("\1", 1);
    else if (t.name == "scalar") {
      double pi = 3.25;
      out.append(&pi, 8);
    } else out.append_floats(t.dtype, std::span(values).first(static_cast<std::size_t>(t.size())));
  }
  out.commit();
  EXPECT_THAT(order, testing::ElementsAre("scalar", "a", "none", "b \"q\" é", "half", "flags"));

  SafetensorsFile file(dir / "x");
  EXPECT_EQ(file.metadata(), (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}}));
  EXPECT_EQ(file.tensors().size(), 6u);
  auto a = file.at("a").floats("x");
  EXPECT_EQ(0, std::memcmp(a.data(), values.data(), sizeof(float) * 6));
  EXPECT_EQ(shape_text(file.at("a").shape), "[3, 2]");
  EXPECT_EQ(file.at("b \"q\" é").floats("x")[3], to_float(to_bf16(3e30f)));
  EXPECT_TRUE(std::isnan(file.at("b \"q\" é").floats("x")[5]));
  EXPECT_EQ(file.at("half").floats("x")[2], -2.5f);
  EXPECT_EQ(file.at("scalar").floats("x"), std::vector<float>{3.25f});
  EXPECT_EQ(file.at("none").size(), 0);
  EXPECT_EQ(file.at("flags").bytes[0], std::byte{1});
  for (auto& t : file.tensors()) EXPECT_TRUE(t.aligned()) << t.name;
  EXPECT_THAT(refusal([&] { file.at("flags").floats("x"); }), HasSubstr("'flags' is BOOL"));
  EXPECT_THAT(refusal([&] { file.at("scalr"); }), HasSubstr("did you mean 'scalar'?"));
}

TEST(Safetensors, FilesOfOtherWritersMayBeUnalignedAndPadded) {
  TempDir dir;
  std::string header =
      R"({"b":{"dtype":"BF16","shape":[1],"data_offsets":[1,3]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}  )";
  std::string bytes = safetensors_bytes(header, 3);
  bytes[bytes.size() - 1] = '\x3f', bytes[bytes.size() - 2] = '\x80';
  put(dir / "x", bytes);
  SafetensorsFile file(dir / "x");
  EXPECT_EQ(file.at("b").floats("x")[0], 1.0f);
}

TEST(Safetensors, EscapedNamesAreDecoded) {
  TempDir dir;
  put(dir / "x",
      safetensors_bytes(R"({"\u0077\u00e9\ud83d\ude00\/":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", 1));
  EXPECT_TRUE(SafetensorsFile(dir / "x").find("wé😀/"));
}

TEST(Safetensors, NamesThatDifferByCaseOrNormalFormAreDistinct) {
  TempDir dir;
  put(dir / "x", safetensors_bytes("{\"\u00e9\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},\"e\u0301\":{"
                                   "\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[1,2]},"
                                   "\"W\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[2,3]},\"w\":{\"dtype\":"
                                   "\"U8\",\"shape\":[],\"data_offsets\":[3,4]}}",
                                   4));
  EXPECT_EQ(SafetensorsFile(dir / "x").tensors().size(), 4u);
}

TEST(Safetensors, ZeroSizedTensorsTakeNoSpace) {
  TempDir dir;
  put(dir / "x",
      safetensors_bytes(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"z":{"dtype":"F32","shape":[0],"data_offsets":[8,8]},"y":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
          8));
  EXPECT_EQ(SafetensorsFile(dir / "x").tensors().size(), 3u);
}

TEST(Safetensors, AnEmptyModelIsAValidFile) {
  TempDir dir;
  put(dir / "x", safetensors_bytes("{}", 0));
  EXPECT_TRUE(SafetensorsFile(dir / "x").tensors().empty());
}

TEST(Safetensors, RealFilesAreReadAndRewritten) {
  std::string path = DML_SOURCE_DIR "/../shared/data/models/stories260K/model.safetensors";
  if (!fs::exists(path)) GTEST_SKIP() << "no ../shared/data";
  SafetensorsFile file(path);
  std::int64_t n = 0;
  TempDir dir;
  std::vector<TensorInfo> infos;
  for (auto& t : file.tensors()) {
    n += t.size();
    infos.push_back({std::string(t.name), t.dtype, {t.shape.begin(), t.shape.end()}});
  }
  EXPECT_EQ(n, 260032);
  SafetensorsWriter out(dir / "y", infos);
  for (auto& t : out.tensors()) out.append(file.at(t.name).bytes.data(), t.bytes());
  out.commit();
  SafetensorsFile again(dir / "y");
  for (auto& t : file.tensors()) EXPECT_TRUE(std::ranges::equal(t.bytes, again.at(t.name).bytes)) << t.name;
}

// An independent reader (plain Python and numpy) agrees that our files follow the format.
TEST(Safetensors, AnIndependentReaderAcceptsOurFiles) {
  std::string tool = DML_SOURCE_DIR "/tools/check_safetensors.py";
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "no python3-numpy";
  TempDir dir;
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  write_safetensors(
      dir / "x", {{"b", DType::bf16, {3}}, {"f", DType::f32, {2, 3}}, {"h", DType::f16, {1}}, {"z", DType::f32, {0}}},
      [&](const TensorInfo& t) { return std::span<const float>(values).first(static_cast<std::size_t>(t.size())); });
  std::string command = fmt::format("/usr/bin/python3 {} {} > {}", tool, dir / "x", dir / "out");
  ASSERT_EQ(std::system(command.c_str()), 0) << get(dir / "out");
  EXPECT_THAT(get(dir / "out"), HasSubstr("b BF16 [3] sum 6\nf F32 [2, 3] sum 21\nh F16 [1] sum 1\nz F32 [0] sum 0\n"));
  put(dir / "bad", get(dir / "x") + "!");
  EXPECT_NE(std::system(fmt::format("/usr/bin/python3 {} {} > /dev/null 2>&1", tool, dir / "bad").c_str()), 0);
}

TEST(SafetensorsWriter, LeavesNothingWithoutCommit) {
  TempDir dir;
  { SafetensorsWriter out(dir / "x", {{"a", DType::f32, {3}}}); }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(Dtypes, HaveTheirNames) {
  for (const char* name : {"BOOL",    "F4",          "F6_E2M3",     "F6_E3M2", "U8",  "I8",  "F8_E5M2", "F8_E4M3",
                           "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16",     "U16", "F16", "BF16",    "I32",
                           "U32",     "F32",         "C64",         "F64",     "I64", "U64"})
    EXPECT_EQ(safetensors_name(dtype_from_safetensors(name).value()), name);
  EXPECT_FALSE(dtype_from_safetensors("f32"));
}

// ---- what is refused

TEST(SafetensorsRefuses, EveryTruncation) {
  TempDir dir;
  std::vector<float> values(6, 1);
  write_safetensors(
      dir / "x", {{"first.weight", DType::f32, {2, 3}}, {"second", DType::f16, {2}}},
      [&](const TensorInfo& t) { return std::span<const float>(values).first(static_cast<std::size_t>(t.size())); });
  std::string whole = get(dir / "x");
  for (std::size_t n = 0; n < whole.size(); ++n) open_refusal(whole.substr(0, n));
  // and every header that ends early in a file whose length field says so
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), 8);
  std::string header = whole.substr(8, length);
  while (header.back() == ' ') header.pop_back();
  for (std::size_t n = 0; n < header.size(); ++n) open_refusal(safetensors_bytes(header.substr(0, n), 28));
}

struct LengthField {
  const char* name;
  std::uint64_t length;
};
class BadLength : public testing::TestWithParam<LengthField> {};
TEST_P(BadLength, IsRefused) {
  std::string bytes = safetensors_bytes(kGood, 8);
  std::memcpy(bytes.data(), &GetParam().length, 8);
  open_refusal(bytes);
}
INSTANTIATE_TEST_SUITE_P(Table, BadLength,
                         testing::Values(LengthField{"Zero", 0}, LengthField{"One", 1}, LengthField{"IntoTheData", 55},
                                         LengthField{"BeyondTheFile", 1000}, LengthField{"OverTheLimit", 100'000'001},
                                         LengthField{"TwoTo63", std::uint64_t{1} << 63},
                                         LengthField{"Wraps", ~std::uint64_t{0}},
                                         LengthField{"WrapsByEight", ~std::uint64_t{0} - 7}),
                         [](auto& one) { return one.param.name; });

struct BadHeader {
  const char* name;
  std::string header;
  std::size_t data;
  const char* message;
};
void PrintTo(const BadHeader& bad, std::ostream* out) { *out << bad.name; }

class BadSafetensors : public testing::TestWithParam<BadHeader> {};
TEST_P(BadSafetensors, IsRejectedWithAReason) {
  EXPECT_THAT(open_refusal(safetensors_bytes(GetParam().header, GetParam().data)), HasSubstr(GetParam().message));
}

std::string u8(const std::string& rest) { return entry("w", "{\"dtype\":\"U8\"," + rest + "}"); }
std::string shape(const std::string& s) { return u8("\"shape\":" + s + ",\"data_offsets\":[0,2]"); }
std::string offsets(const std::string& s) { return u8("\"shape\":[2],\"data_offsets\":" + s); }
std::string name(const std::string& s) { return entry(s, R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})"); }
std::string two(const std::string& a, const std::string& b) {
  return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + a +
         R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}";
}
std::string dtype(const std::string& s) { return R"({"w":{"dtype":)" + s + R"(,"shape":[2],"data_offsets":[0,2]}})"; }
std::string metadata(const std::string& s) { return R"({"__metadata__":)" + s + "}"; }

INSTANTIATE_TEST_SUITE_P(
    Table, BadSafetensors,
    testing::Values(
        BadHeader{"NotUtf8", "{\"\xff\":{}}", 0, "not UTF-8"},
        BadHeader{"OverlongUtf8", "{\"\xc0\xaf\":{}}", 0, "not UTF-8"}, BadHeader{"Array", "[]", 0, "begins with '{'"},
        BadHeader{"Text", "\"x\"", 0, "begins with '{'"}, BadHeader{"Null", "null", 0, "begins with '{'"},
        BadHeader{"LeadingSpace", " {}", 0, "begins with '{'"},
        BadHeader{"ByteOrderMark", "\xef\xbb\xbf{}", 0, "begins with '{'"},
        BadHeader{"NulInside", std::string("{\0}", 3), 0, "expected '\"'"},
        BadHeader{"TrailingGarbage", "{} x", 0, "after the header's closing brace"},
        BadHeader{"SecondObject", "{}{}", 0, "after the header's closing brace"},
        BadHeader{"TrailingComma", R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},})", 2, "expected '\"'"},
        BadHeader{"DeepArrays", "{\"w\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0,
                  "expected '{'"},
        BadHeader{
            "DuplicateName",
            R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
            4, "occurs twice"},
        BadHeader{
            "DuplicateNameOtherType",
            R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"w":{"dtype":"I8","shape":[2],"data_offsets":[2,4]}})",
            4, "occurs twice"},
        BadHeader{
            "DuplicateNameEscaped",
            R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"\u0077":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
            4, "occurs twice"},
        BadHeader{"DuplicateField", R"({"w":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2,
                  "'dtype' is given twice"},
        BadHeader{"DuplicateMetadata", R"({"__metadata__":{},"__metadata__":{}})", 0, "given twice"},
        BadHeader{"DuplicateMetadataKey", metadata(R"({"a":"b","a":"c"})"), 0, "given twice"},
        BadHeader{"NestedMetadata", metadata(R"({"a":{}})"), 0, "expected '\"'"},
        BadHeader{"NumberInMetadata", metadata(R"({"a":1})"), 0, "expected '\"'"},
        BadHeader{"NullMetadata", metadata("null"), 0, "expected '{'"},
        BadHeader{"UnknownField", u8(R"("shape":[2],"data_offsets":[0,2],"x":1)"), 2, "unknown field 'x'"},
        BadHeader{"NoDtype", entry("w", R"({"shape":[2],"data_offsets":[0,2]})"), 2, "has no dtype"},
        BadHeader{"NoShape", u8(R"("data_offsets":[0,2])"), 2, "has no shape"},
        BadHeader{"NoOffsets", u8(R"("shape":[2])"), 2, "has no data_offsets"},
        BadHeader{"UnknownDtype", dtype("\"Q4\""), 2, "unknown dtype 'Q4'"},
        BadHeader{"LowerCaseDtype", dtype("\"u8\""), 2, "unknown dtype"},
        BadHeader{"NumberAsDtype", dtype("8"), 2, "expected '\"'"},
        BadHeader{"ShapeText", shape("\"2\""), 2, "expected '['"},
        BadHeader{"ShapeFloat", shape("[2.0]"), 2, "non-negative integer"},
        BadHeader{"ShapeHalf", shape("[2.5]"), 2, "non-negative integer"},
        BadHeader{"ShapeNegative", shape("[-2]"), 2, "non-negative integer"},
        BadHeader{"ShapeMinusZero", shape("[-0]"), 2, "non-negative integer"},
        BadHeader{"ShapeExponent", shape("[1e3]"), 2, "non-negative integer"},
        BadHeader{"ShapeLeadingZero", shape("[02]"), 2, "non-negative integer"},
        BadHeader{"ShapeTwoTo64", shape("[18446744073709551616]"), 2, "too large"},
        BadHeader{"ShapeTwoTo63", shape("[9223372036854775808,2]"), 2, "too large"},
        BadHeader{"ShapeNested", shape("[[2]]"), 2, "non-negative integer"},
        BadHeader{"Rank9", shape("[1,1,1,1,1,1,1,1,2]"), 2, "more than 8 dimensions"},
        BadHeader{"ShapeProductWraps", shape("[4194305,4194305,211106198978564]"), 2, "overflows"},
        BadHeader{"ShapeProductHuge", shape("[2,9223372036854775807]"), 2, "overflows"},
        BadHeader{"ZeroDimensionWithData", shape("[0]"), 2, "takes 0 bits"},
        BadHeader{
            "ZeroSizedInsideAnother",
            R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"z":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
            2, "overlaps"},
        BadHeader{"OneOffset", offsets("[0]"), 2, "expected ','"},
        BadHeader{"ThreeOffsets", offsets("[0,1,2]"), 2, "expected ']'"},
        BadHeader{"TextOffsets", offsets("[\"0\",\"2\"]"), 2, "non-negative integer"},
        BadHeader{"NegativeOffset", offsets("[-1,2]"), 2, "non-negative integer"},
        BadHeader{"OffsetsBackwards", offsets("[2,0]"), 2, "run backwards"},
        BadHeader{"Overlap", two("[0,2]", "[1,3]"), 3, "overlaps"},
        BadHeader{"SameRange", two("[0,2]", "[0,2]"), 2, "overlaps"},
        BadHeader{"Hole", two("[0,2]", "[3,5]"), 5, "a hole"},
        BadHeader{"FirstNotAtZero", offsets("[1,3]"), 3, "a hole"}, BadHeader{"BeyondTheFile", kGood, 7, "cut short"},
        BadHeader{"TrailingBytes", kGood, 9, "belong to no tensor"},
        BadHeader{"OneByteTooFew", R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}})", 7, "takes 64 bits"},
        BadHeader{"OneByteTooMany", R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})", 9, "takes 64 bits"},
        BadHeader{"OddNibbles", R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, "takes 12 bits"},
        BadHeader{"OddSixBits", R"({"w":{"dtype":"F6_E2M3","shape":[1],"data_offsets":[0,1]}})", 1, "takes 6 bits"},
        BadHeader{"EmptyName", name(""), 2, "1 to 1024 bytes"},
        BadHeader{"NameOfAMegabyte", name(std::string(1 << 20, 'x')), 2, "1 to 1024 bytes"},
        BadHeader{"NameWithEscape", name("a\\u001b[2J"), 2, "control character"},
        BadHeader{"NameWithRawControl", name("a\nb"), 2, "control character"},
        BadHeader{"NameWithDelete", name("a\x7f"), 2, "control character"},
        BadHeader{"HalfSurrogate", name("\\ud800"), 2, "unpaired surrogate"},
        BadHeader{"LowSurrogate", name("\\udc00"), 2, "unpaired surrogate"},
        BadHeader{"BadEscape", name("\\x41"), 2, "unknown escape"},
        BadHeader{"BadHex", name("\\u00g0"), 2, "four hex digits"}),
    [](auto& one) { return one.param.name; });

TEST(SafetensorsRefuses, IrregularFiles) {
  TempDir dir;
  mkfifo((dir / "pipe").c_str(), 0600);
  for (const std::string& path : {dir.path(), dir / "nothing", dir / "pipe", std::string("/dev/zero")})
    EXPECT_NE(refusal([&] { SafetensorsFile file(path); }), "");
}

// A million entries are legal, one more is not; a DOM would take seconds and most of a gigabyte.
TEST(SafetensorsLimits, AMillionEntriesTakeLittleMemory) {
  auto file_with = [](int n) {
    std::string header = "{";
    for (int i = 0; i < n; ++i)
      header += fmt::format("{}\"{}\":{{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", i ? "," : "", i);
    return safetensors_bytes(header + "}", 0);
  };
  TempDir dir;
  put(dir / "x", file_with(1'000'000));
  std::size_t before = memory_use().now;
  {
    SafetensorsFile file(dir / "x");
    EXPECT_EQ(file.tensors().size(), 1'000'000u);
    EXPECT_TRUE(file.find("123456"));
    EXPECT_LT(memory_use().peak, before + (std::size_t{300} << 20));
  }
  EXPECT_THAT(open_refusal(file_with(1'000'001)), HasSubstr("more than 1000000 tensors"));
}

}  // namespace
}  // namespace dml
