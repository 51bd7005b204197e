#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/closest.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "kernels/quant_ggml.h"

namespace dml {
static_assert(std::endian::native == std::endian::little, "safetensors data is used in place");
namespace {

constexpr std::size_t kWarnBytes = std::size_t{16} << 20;

std::int64_t product(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  return n;
}

SafetensorsHeader read_header(const MappedFile& file, std::size_t& data_start) {
  const std::string& path = file.path();
  auto bytes = file.bytes();
  if (bytes.size() < 8) throw UserError("{}: {} bytes, too short for a safetensors file", path, bytes.size());
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  if (length > SafetensorsHeader::kMaxBytes)
    throw UserError("{}: header of {} bytes, the limit is {}; not a safetensors file?", path, length,
                    SafetensorsHeader::kMaxBytes);
  if (length > bytes.size() - 8)
    throw UserError("{}: header of {} bytes in a file of {}; it is cut short", path, length, bytes.size());
  if (length > kWarnBytes) log_warning("{}: unusually large header ({} bytes)", path, length);
  data_start = 8 + static_cast<std::size_t>(length);
  return parse_safetensors_header(file.text().substr(8, static_cast<std::size_t>(length)), bytes.size() - data_start,
                                  path);
}

std::string json_text(const std::string& text) { return dump(Json(text)); }

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::int64_t TensorView::size() const { return product(shape); }
std::int64_t TensorInfo::size() const { return product(shape); }

bool TensorView::aligned() const {
  auto width = static_cast<std::uintptr_t>(std::max(1, dtype_bits(dtype) / 8));
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % width == 0;
}

void TensorView::read(std::int64_t first, std::int64_t count, float* out) const {
  if (quantized()) kernels::unpack({dtype, 1, size(), bytes.data()}, 0, 1, first, count, out);
  else read_floats(dtype, bytes.data() + dtype_bytes(dtype, first), count, out);
}

bool TensorView::quantized() const { return kernels::block_format(dtype) != nullptr; }

std::vector<float> TensorView::floats(const std::string& source) const {
  if (!readable())
    throw UserError("{}: tensor '{}' is {}, expected F32, F16, BF16 or F64", source, name, safetensors_name(dtype));
  std::vector<float> out(static_cast<std::size_t>(size()));
  read(0, size(), out.data());
  return out;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  std::size_t start = 0;
  header_ = read_header(file_, start);
  tensors_.reserve(header_.entries.size());
  for (auto& e : header_.entries)
    tensors_.push_back({e.name, e.dtype, header_.shape(e), file_.bytes().subspan(start + e.begin, e.end - e.begin)});
  header_.entries = {};
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  auto it = std::ranges::lower_bound(tensors_, name, {}, &TensorView::name);
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

const TensorView& SafetensorsFile::at(std::string_view name) const {
  if (auto* t = find(name)) return *t;
  std::vector<std::string> names;
  for (auto& t : tensors_) names.emplace_back(t.name);
  throw UserError("{}: no tensor '{}'{}", path(), name, did_you_mean(name, names));
}

SafetensorsLayout::SafetensorsLayout(std::vector<TensorInfo> declared,
                                     const std::map<std::string, std::string>& metadata)
    : tensors(std::move(declared)) {
  std::ranges::sort(tensors, {},
                    [](auto& t) { return std::pair<int, std::string_view>(-dtype_bits(t.dtype), t.name); });
  std::vector<std::string_view> names;
  for (auto& t : tensors) names.push_back(t.name);
  std::ranges::sort(names);
  auto twice = std::ranges::adjacent_find(names);
  DML_CHECK(twice == names.end(), "tensor '{}' is declared twice", *twice);

  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (auto& [key, value] : metadata) {
      if (header.back() != '{') header += ',';
      header += json_text(key) + ":" + json_text(value);
    }
    header += '}';
  }
  for (auto& t : tensors) {
    if (header.size() > 1) header += ',';
    header += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_text(t.name),
                          safetensors_name(t.dtype), fmt::join(t.shape, ","), size, size + t.bytes());
    offsets.push_back(size);
    size += t.bytes();
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::uint64_t length = header.size();
  front.assign(reinterpret_cast<const char*>(&length), sizeof length).append(header);
  for (std::size_t& offset : offsets) offset += front.size();
  size += front.size();
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<TensorInfo> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : layout_(std::move(tensors), metadata), file_(path) {
  file_.write(layout_.front);
}

void SafetensorsWriter::append(const void* data, std::size_t size) {
  DML_CHECK(size <= layout_.size - file_.position(), "more data than the declared tensors hold");
  file_.write(data, size);
}

void SafetensorsWriter::append_floats(DType dtype, std::span<const float> values) {
  if (dtype == DType::f32) return append(values.data(), values.size_bytes());
  constexpr std::size_t kPiece = 4096;
  std::uint16_t piece[kPiece];
  for (std::size_t i = 0; i < values.size(); i += kPiece) {
    std::size_t n = std::min(kPiece, values.size() - i);
    write_floats(dtype, values.data() + i, static_cast<std::int64_t>(n), piece);
    append(piece, 2 * n);
  }
}

void SafetensorsWriter::commit() {
  DML_CHECK(file_.position() == layout_.size, "{} bytes of data are missing", layout_.size - file_.position());
  file_.commit();
}

void write_safetensors(const std::string& path, std::vector<TensorInfo> tensors,
                       const std::function<std::span<const float>(const TensorInfo&)>& values,
                       const std::map<std::string, std::string>& metadata) {
  SafetensorsWriter out(path, std::move(tensors), metadata);
  for (auto& t : out.tensors()) {
    auto v = values(t);
    DML_CHECK(static_cast<std::int64_t>(v.size()) == t.size(), "{}: {} values for shape {}", t.name, v.size(),
              shape_text(t.shape));
    out.append_floats(t.dtype, v);
  }
  out.commit();
}

}  // namespace dml
