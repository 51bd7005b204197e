#include "data/arrow/flat.h"

namespace dml::arrow {
namespace {

template <class T>
T read(std::string_view bytes, std::size_t at) {
  if (at > bytes.size() || sizeof(T) > bytes.size() - at)
    throw FlatProblem("the metadata refer to bytes outside of them");
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

}  // namespace

FlatVector::FlatVector(std::string_view bytes, std::size_t at, std::size_t element)
    : bytes_(bytes), at_(at + 4), size_(read<std::uint32_t>(bytes, at)), element_(element) {
  if (size_ > (bytes_.size() - at_) / element_) throw FlatProblem("a list in the metadata exceeds their size");
}

FlatTable FlatVector::table(std::size_t i) const {
  const std::size_t place = at_ + 4 * i;
  return {bytes_, place + read<std::uint32_t>(bytes_, place)};
}

std::int64_t FlatVector::number(std::size_t i, std::size_t offset) const {
  return read<std::int64_t>(bytes_, at_ + element_ * i + offset);
}

FlatTable::FlatTable(std::string_view bytes) : FlatTable(bytes, read<std::uint32_t>(bytes, 0)) {}

FlatTable::FlatTable(std::string_view bytes, std::size_t at) : bytes_(bytes), at_(at) {
  const auto back = static_cast<std::int64_t>(at) - read<std::int32_t>(bytes, at);
  if (back < 0) throw FlatProblem("the metadata refer to bytes outside of them");
  offsets_ = static_cast<std::size_t>(back);
  offsets_size_ = read<std::uint16_t>(bytes, offsets_);
  size_ = read<std::uint16_t>(bytes, offsets_ + 2);
  if (offsets_size_ < 4 || offsets_size_ > bytes.size() - offsets_ || size_ < 4 || size_ > bytes.size() - at)
    throw FlatProblem("a table of the metadata has a wrong size");
}

std::size_t FlatTable::find(int field, std::size_t size) const {
  const std::size_t slot = 4 + 2 * static_cast<std::size_t>(field);
  if (slot + 2 > offsets_size_) return 0;
  const std::size_t offset = read<std::uint16_t>(bytes_, offsets_ + slot);
  if (offset == 0) return 0;
  if (offset + size > size_) throw FlatProblem("a field of the metadata lies outside of its table");
  return at_ + offset;
}

std::size_t FlatTable::follow(int field) const {
  const std::size_t place = find(field, 4);
  return place == 0 ? 0 : place + read<std::uint32_t>(bytes_, place);
}

std::string_view FlatTable::text(int field) const {
  const std::size_t place = follow(field);
  if (place == 0) return {};
  const std::size_t size = read<std::uint32_t>(bytes_, place);
  if (size > bytes_.size() - place - 4) throw FlatProblem("a name in the metadata is longer than they are");
  return bytes_.substr(place + 4, size);
}

FlatTable FlatTable::table(int field) const {
  const std::size_t place = follow(field);
  if (place == 0) throw FlatProblem("the metadata lack a part");
  return {bytes_, place};
}

FlatVector FlatTable::vector(int field, std::size_t element) const {
  const std::size_t place = follow(field);
  return place == 0 ? FlatVector() : FlatVector(bytes_, place, element);
}

}  // namespace dml::arrow
