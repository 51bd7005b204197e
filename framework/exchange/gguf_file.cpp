#include "exchange/gguf_file.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "core/error.h"
#include "core/shown.h"

namespace dml {
using Type = GgufValue::Type;

class GgufFile::Parser {
 public:
  explicit Parser(GgufFile& into) : into_(into), text_(into.file_.text()) {}

  void parse() {
    if (text_.substr(0, 4) != "GGUF") fail(0, "not a GGUF file: it does not begin with 'GGUF'");
    at_ = 4;
    const auto version = number<std::uint32_t>();
    if (version != 0 && version % 65536 == 0) fail(4, "the file is for big-endian machines");
    if (version != 2 && version != 3) fail(4, "version {}; 2 and 3 can be read", version);
    const auto tensors = number<std::uint64_t>(), keys = number<std::uint64_t>();
    if (tensors > text_.size() / 24) fail(8, "{} tensors in a file of {} bytes", tensors, text_.size());
    if (keys > text_.size() / 13) fail(16, "{} keys in a file of {} bytes", keys, text_.size());
    for (std::uint64_t i = 0; i < keys; ++i) read_key();
    const std::int64_t alignment = read_alignment();
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t i = 0; i < tensors; ++i) offsets.push_back(read_info());
    place(offsets, static_cast<std::uint64_t>(alignment));
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(std::size_t at, fmt::format_string<Args...> text, Args&&... args) const {
    throw UserError("{}: byte {}: {}", into_.path(), at, fmt::format(text, std::forward<Args>(args)...));
  }

  std::string_view take(std::uint64_t size) {
    if (size > text_.size() - at_) fail(at_, "{} bytes are expected, {} are left", size, text_.size() - at_);
    if (at_ + size > kMaxFront) fail(at_, "more than {} MB of keys", kMaxFront >> 20);
    at_ += size;
    return text_.substr(at_ - size, size);
  }
  template <class T>
  T number() {
    T x;
    std::memcpy(&x, take(sizeof(T)).data(), sizeof(T));
    return x;
  }
  std::string_view string() {
    const std::size_t begin = at_;
    const auto size = number<std::uint64_t>();
    if (size > text_.size() - at_) fail(begin, "a text of {} bytes, {} are left", size, text_.size() - at_);
    return take(size);
  }
  Type type() {
    const std::size_t begin = at_;
    const auto x = number<std::uint32_t>();
    if (x > static_cast<std::uint32_t>(Type::f64)) fail(begin, "unknown type {} of a value; known are 0 to 12", x);
    return static_cast<Type>(x);
  }

  void read_key() {
    const std::size_t begin = at_;
    const std::string key(string());
    if (key.empty() || key.size() > 65535) fail(begin, "a key of {} bytes", key.size());
    if (!keys_.insert(key).second) fail(begin, "key '{}' occurs twice", shown(key));
    into_.metadata_.add(key, read_value());
  }

  GgufValue read_value() {
    const Type kind = type();
    if (kind == Type::text) return GgufValue::text(std::string(string()));
    if (kind != Type::array) return {kind, kind, std::string(take(GgufValue::width(kind))), {}};
    const std::size_t begin = at_;
    const Type element = type();
    if (element == Type::array) fail(begin, "an array of arrays");
    const auto count = number<std::uint64_t>();
    const std::size_t left = text_.size() - at_;
    if (element == Type::text) {
      if (count > left / 8 || count > kMaxTexts) fail(begin, "an array of {} texts, {} bytes are left", count, left);
      std::vector<std::string> texts;
      texts.reserve(count);
      for (std::uint64_t i = 0; i < count; ++i) texts.emplace_back(string());
      return GgufValue::texts(std::move(texts));
    }
    if (count > left / GgufValue::width(element)) fail(begin, "an array of {} numbers, {} bytes are left", count, left);
    return {Type::array, element, std::string(take(count * GgufValue::width(element))), {}};
  }

  std::int64_t read_alignment() {
    const GgufValue* value = into_.metadata_.find("general.alignment");
    if (!value) return GgufWriter::kAlignment;
    if (value->type() != Type::u32 || !std::has_single_bit(static_cast<std::uint64_t>(value->integer())))
      into_.wrong("general.alignment", "a power of two");
    return value->integer();
  }

  // Parses a tensor info; returns the tensor's offset.
  std::uint64_t read_info() {
    const std::size_t begin = at_;
    GgufTensorView t;
    t.name = string();
    const std::string name = shown(t.name);
    if (t.name.empty() || t.name.size() > 63)
      fail(begin, "a tensor's name of {} bytes; 1 to 63 are allowed", t.name.size());
    if (!names_.insert(t.name).second) fail(begin, "tensor '{}' occurs twice", name);
    const auto dimensions = number<std::uint32_t>();
    if (dimensions < 1 || dimensions > 4)
      fail(begin, "tensor '{}' has {} dimensions; 1 to 4 are allowed", name, dimensions);
    std::uint64_t elements = 1;
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      const auto size = number<std::uint64_t>();
      if (size > (std::uint64_t{1} << 48) || (size > 0 && elements > (std::uint64_t{1} << 48) / size))
        fail(begin, "tensor '{}' is too large", name);
      elements *= size;
      t.shape.insert(t.shape.begin(), static_cast<std::int64_t>(size));
    }
    const auto kind = number<std::uint32_t>();
    t.type = ggml_type(kind);
    if (!t.type) fail(begin, "tensor '{}' has the unknown type {}", name, kind);
    if (t.shape.back() % t.type->values != 0)
      fail(begin, "tensor '{}' has rows of {} values, {} needs a multiple of {}", name, t.shape.back(), t.type->name,
           t.type->values);
    const auto offset = number<std::uint64_t>();
    into_.tensors_.push_back(std::move(t));
    return offset;
  }

  void place(const std::vector<std::uint64_t>& offsets, std::uint64_t alignment) {
    auto aligned = [&](std::uint64_t x) { return (x + alignment - 1) / alignment * alignment; };
    const std::uint64_t front = offsets.empty() ? at_ : aligned(at_);
    into_.front_ = front;
    std::uint64_t next = 0;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      GgufTensorView& t = into_.tensors_[i];
      const auto size = static_cast<std::uint64_t>(t.bytes());
      if (offsets[i] != next)
        fail(at_, "tensor '{}' is said to begin at {}, the one before it ends at {}", shown(t.name), offsets[i], next);
      if (front > text_.size() || next > text_.size() - front || size > text_.size() - front - next)
        fail(text_.size(), "the file ends inside tensor '{}', which has {} bytes: it was cut off", shown(t.name), size);
      t.data = into_.file_.bytes().subspan(front + next, size);
      next = aligned(next + size);
    }
    for (std::size_t i = 0; i < into_.tensors_.size(); ++i) into_.places_.emplace(into_.tensors_[i].name, i);
  }

  GgufFile& into_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::set<std::string, std::less<>> keys_, names_;
};

GgufFile::GgufFile(const std::string& path) : file_(path) { Parser(*this).parse(); }

const GgufTensorView* GgufFile::find(std::string_view name) const {
  auto it = places_.find(name);
  return it == places_.end() ? nullptr : &tensors_[it->second];
}

void GgufFile::wrong(std::string_view key, std::string_view expected) const {
  throw UserError("{}: key '{}' must be {}", path(), key, expected);
}

const GgufValue& GgufFile::required(std::string_view key) const {
  const GgufValue* value = metadata_.find(key);
  if (!value) throw UserError("{}: key '{}' is missing", path(), key);
  return *value;
}

std::int64_t GgufFile::integer(std::string_view key) const {
  const GgufValue& value = required(key);
  if (!value.is_number() || value.type() == Type::f32 || value.type() == Type::f64) wrong(key, "a whole number");
  return value.integer();
}
double GgufFile::number(std::string_view key) const {
  const GgufValue& value = required(key);
  if (!value.is_number() || !std::isfinite(value.number())) wrong(key, "a finite number");
  return value.number();
}
std::string GgufFile::text(std::string_view key) const {
  const GgufValue& value = required(key);
  if (!value.is_text()) wrong(key, "a text");
  return value.str();
}
std::int64_t GgufFile::integer(std::string_view key, std::int64_t fallback) const {
  return metadata_.find(key) ? integer(key) : fallback;
}
double GgufFile::number(std::string_view key, double fallback) const {
  return metadata_.find(key) ? number(key) : fallback;
}
std::string GgufFile::text(std::string_view key, std::string_view fallback) const {
  return metadata_.find(key) ? text(key) : std::string(fallback);
}
bool GgufFile::truth(std::string_view key, bool fallback) const {
  const GgufValue* value = metadata_.find(key);
  if (!value) return fallback;
  if (value->type() != Type::boolean) wrong(key, "true or false");
  return value->truth();
}

void require_model(const GgufFile& file) {
  const std::string type = file.text("general.type", "model");
  if (type == "model") return;
  const char* instead = type == "adapter" ? "; dml writes adapters as GGUF files and reads them from PEFT folders" : "";
  throw UserError("{}: holds no model, but an object of type '{}'{}", file.path(), type, instead);
}

bool is_gguf_file(const std::string& path) { return path.ends_with(".gguf"); }

}  // namespace dml
