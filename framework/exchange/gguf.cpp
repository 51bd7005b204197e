#include "exchange/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>

#include "core/error.h"

namespace dml {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is written as it lies in memory");

using Type = GgufValue::Type;

constexpr std::pair<std::uint32_t, DType> kStored[] = {
    {0, DType::f32},     {1, DType::f16},     {2, DType::q4_0},  {3, DType::q4_1},  {6, DType::q5_0},
    {7, DType::q5_1},    {8, DType::q8_0},    {12, DType::q4_k}, {13, DType::q5_k}, {14, DType::q6_k},
    {20, DType::iq4_nl}, {23, DType::iq4_xs}, {30, DType::bf16}};

// Known, so that a file's tensors can be measured, but neither read nor written.
constexpr GgmlType kOthers[] = {
    {"q8_1", 9, 32, 36},      {"q2_k", 10, 256, 84},   {"q3_k", 11, 256, 110},   {"q8_k", 15, 256, 292},
    {"iq2_xxs", 16, 256, 66}, {"iq2_xs", 17, 256, 74}, {"iq3_xxs", 18, 256, 98}, {"iq1_s", 19, 256, 50},
    {"iq3_s", 21, 256, 110},  {"iq2_s", 22, 256, 82},  {"i8", 24, 1, 1},         {"i16", 25, 1, 2},
    {"i32", 26, 1, 4},        {"i64", 27, 1, 8},       {"f64", 28, 1, 8},        {"iq1_m", 29, 256, 56},
    {"tq1_0", 34, 256, 54},   {"tq2_0", 35, 256, 66},  {"mxfp4", 39, 32, 17},
};

std::vector<GgmlType> all_types() {
  std::vector<GgmlType> all(std::begin(kOthers), std::end(kOthers));
  for (auto [id, dtype] : kStored)
    all.push_back({dtype_row(dtype).name, id, dtype_row(dtype).values, dtype_row(dtype).bytes, dtype});
  std::ranges::sort(all, {}, &GgmlType::id);
  return all;
}

template <class T>
std::string raw_of(std::span<const T> x) {
  return {reinterpret_cast<const char*>(x.data()), x.size_bytes()};
}
template <class T>
GgufValue scalar(Type type, T x) {
  return {type, type, raw_of(std::span<const T>(&x, 1)), {}};
}

template <class T>
T element_at(const std::string& raw, std::size_t i) {
  T x;
  std::memcpy(&x, raw.data() + i * sizeof(T), sizeof(T));
  return x;
}

class Front {
 public:
  template <class T>
  void number(T x) {
    out.append(reinterpret_cast<const char*>(&x), sizeof(T));
  }
  void text(std::string_view s) {
    number(static_cast<std::uint64_t>(s.size()));
    out.append(s);
  }
  void value(const GgufValue& v) {
    number(static_cast<std::uint32_t>(v.type()));
    if (v.type() == Type::array) {
      number(static_cast<std::uint32_t>(v.element()));
      number(static_cast<std::uint64_t>(v.count()));
    }
    out.append(v.raw());
    for (const std::string& s : v.strings()) text(s);
  }
  std::string out;
};

std::int64_t padding(std::int64_t size) {
  return (GgufWriter::kAlignment - size % GgufWriter::kAlignment) % GgufWriter::kAlignment;
}

}  // namespace

std::span<const GgmlType> ggml_types() {
  static const std::vector<GgmlType> all = all_types();
  return all;
}

const GgmlType* ggml_type(std::uint32_t id) {
  auto it = std::ranges::find(ggml_types(), id, &GgmlType::id);
  return it == ggml_types().end() ? nullptr : &*it;
}
const GgmlType* ggml_type(std::string_view name) {
  auto it = std::ranges::find(ggml_types(), name, &GgmlType::name);
  return it == ggml_types().end() ? nullptr : &*it;
}
const GgmlType& ggml_type(DType dtype) {
  auto it = std::ranges::find(ggml_types(), std::optional(dtype), &GgmlType::dtype);
  DML_CHECK(it != ggml_types().end(), "GGUF has no type for {}", dtype_row(dtype).name);
  return *it;
}

GgufValue GgufValue::u16(std::uint16_t x) { return scalar(Type::u16, x); }
GgufValue GgufValue::u32(std::uint32_t x) { return scalar(Type::u32, x); }
GgufValue GgufValue::i32(std::int32_t x) { return scalar(Type::i32, x); }
GgufValue GgufValue::f32(float x) { return scalar(Type::f32, x); }
GgufValue GgufValue::boolean(bool x) { return scalar(Type::boolean, static_cast<std::uint8_t>(x)); }
GgufValue GgufValue::text(std::string x) { return {Type::text, Type::text, {}, {std::move(x)}}; }
GgufValue GgufValue::texts(std::vector<std::string> x) { return {Type::array, Type::text, {}, std::move(x)}; }
GgufValue GgufValue::i32s(std::span<const std::int32_t> x) { return {Type::array, Type::i32, raw_of(x), {}}; }
GgufValue GgufValue::f32s(std::span<const float> x) { return {Type::array, Type::f32, raw_of(x), {}}; }
GgufValue GgufValue::bytes(std::string_view x) { return {Type::array, Type::u8, std::string(x), {}}; }

std::size_t GgufValue::width(Type type) {
  switch (type) {
    case Type::u8:
    case Type::i8:
    case Type::boolean:
      return 1;
    case Type::u16:
    case Type::i16:
      return 2;
    case Type::u32:
    case Type::i32:
    case Type::f32:
      return 4;
    case Type::u64:
    case Type::i64:
    case Type::f64:
      return 8;
    default:
      return 0;
  }
}

std::size_t GgufValue::count() const {
  if (type_ != Type::array) return 1;
  return element_ == Type::text ? texts_.size() : raw_.size() / width(element_);
}

double GgufValue::number(std::size_t i) const {
  switch (element()) {
    case Type::f32:
      return element_at<float>(raw_, i);
    case Type::f64:
      return element_at<double>(raw_, i);
    default:
      return static_cast<double>(integer(i));
  }
}

std::int64_t GgufValue::integer(std::size_t i) const {
  DML_CHECK(i < count() && width(element()) > 0);
  switch (element()) {
    case Type::u8:
    case Type::boolean:
      return element_at<std::uint8_t>(raw_, i);
    case Type::i8:
      return element_at<std::int8_t>(raw_, i);
    case Type::u16:
      return element_at<std::uint16_t>(raw_, i);
    case Type::i16:
      return element_at<std::int16_t>(raw_, i);
    case Type::u32:
      return element_at<std::uint32_t>(raw_, i);
    case Type::i32:
      return element_at<std::int32_t>(raw_, i);
    case Type::u64:
    case Type::i64:
      return element_at<std::int64_t>(raw_, i);
    default: {
      const double x = number(i);
      return x > -9e18 && x < 9e18 ? static_cast<std::int64_t>(x) : 0;
    }
  }
}

void GgufMetadata::set(std::string key, GgufValue value) {
  for (auto& [known, old] : entries_)
    if (known == key) {
      old = std::move(value);
      return;
    }
  entries_.emplace_back(std::move(key), std::move(value));
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  for (auto& [known, value] : entries_)
    if (known == key) return &value;
  return nullptr;
}

std::int64_t GgufTensorInfo::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

GgufWriter::GgufWriter(const std::string& path, const GgufMetadata& metadata, std::vector<GgufTensorInfo> tensors)
    : tensors_(std::move(tensors)), file_(path) {
  Front front;
  front.out = "GGUF";
  front.number(std::uint32_t{3});
  front.number(static_cast<std::uint64_t>(tensors_.size()));
  front.number(static_cast<std::uint64_t>(metadata.all().size()));
  for (auto& [key, value] : metadata.all()) {
    front.text(key);
    front.value(value);
  }
  std::int64_t offset = 0;
  for (const GgufTensorInfo& t : tensors_) {
    DML_CHECK(t.name.size() < 64 && t.shape.size() <= 4 && t.shape.back() % t.type->values == 0, "{}", t.name);
    front.text(t.name);
    front.number(static_cast<std::uint32_t>(t.shape.size()));
    for (auto d = t.shape.rbegin(); d != t.shape.rend(); ++d) front.number(static_cast<std::uint64_t>(*d));
    front.number(t.type->id);
    front.number(static_cast<std::uint64_t>(offset));
    offset += t.bytes() + padding(t.bytes());
  }
  front.out.append(static_cast<std::size_t>(padding(std::ssize(front.out))), '\0');
  file_.write(front.out);
}

void GgufWriter::append(const void* data, std::size_t size) {
  DML_CHECK(next_ < tensors_.size(), "all declared tensors are written");
  const std::int64_t whole = tensors_[next_].bytes();
  in_tensor_ += static_cast<std::int64_t>(size);
  DML_CHECK(in_tensor_ <= whole, "{}: more data than its {} bytes", tensors_[next_].name, whole);
  file_.write(data, size);
  if (in_tensor_ < whole) return;
  constexpr char kZeros[kAlignment] = {};
  file_.write(kZeros, static_cast<std::size_t>(padding(whole)));
  in_tensor_ = 0;
  ++next_;
}

void GgufWriter::commit() {
  DML_CHECK(next_ == tensors_.size(), "{} of {} tensors were written", next_, tensors_.size());
  file_.commit();
}

}  // namespace dml
