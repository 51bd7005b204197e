#include "data/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <exception>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/row_file_names.h"

namespace dml {
namespace {

constexpr std::string_view kSeparator = "::";
constexpr std::size_t kMaxMembers = 100'000, kBlock = std::size_t{1} << 16;

struct Closer {
  void operator()(archive* a) const { archive_read_free(a); }
};
using ArchiveReader = std::unique_ptr<archive, Closer>;

[[noreturn]] void fail(const std::string& path, archive* a) {
  const char* why = archive_error_string(a);
  throw UserError("{}: cannot be read as an archive: {}", path, why ? why : "it is damaged");
}

ArchiveReader open_reader(const std::string& path) {
  ArchiveReader reader(archive_read_new());
  DML_CHECK(reader != nullptr, "libarchive: out of memory");
  archive_read_support_format_zip(reader.get());
  archive_read_support_format_tar(reader.get());
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_filter_zstd(reader.get());
  archive_read_support_filter_xz(reader.get());
  archive_read_support_filter_bzip2(reader.get());
  if (archive_read_open_filename(reader.get(), path.c_str(), kBlock) != ARCHIVE_OK) fail(path, reader.get());
  return reader;
}

// The next member's name; "" at the end.
std::string next_member(const std::string& path, archive* a, archive_entry*& entry) {
  while (true) {
    const int result = archive_read_next_header(a, &entry);
    if (result == ARCHIVE_EOF) return {};
    if (result < ARCHIVE_WARN) fail(path, a);
    const char* name = archive_entry_pathname_utf8(entry);
    if (!name) name = archive_entry_pathname(entry);
    if (archive_entry_filetype(entry) == AE_IFREG && name && *name) return name;
  }
}

// Reads from the current member. fails() throws; it is called for a warning, too, with which no bytes come.
template <class Fails>
std::size_t read_member(archive* a, char* buffer, std::size_t size, Fails&& fails) {
  const la_ssize_t n = archive_read_data(a, buffer, size);
  if (n < 0) fails();
  return static_cast<std::size_t>(n);
}

class MemberStream : public ByteStream {
 public:
  explicit MemberStream(const ArchiveMember& place)
      : path_(place.archive + std::string(kSeparator) + place.member), reader_(open_reader(place.archive)) {
    archive_entry* entry = nullptr;
    for (std::string name = next_member(place.archive, reader_.get(), entry); name != place.member;
         name = next_member(place.archive, reader_.get(), entry))
      if (name.empty()) throw UserError("{}: the archive has no such file", path_);
  }
  std::size_t read(char* buffer, std::size_t size) override {
    return read_member(reader_.get(), buffer, size, [&] { fail(path_, reader_.get()); });
  }

 private:
  std::string path_;
  ArchiveReader reader_;
};

class CompressedStream : public ByteStream {
 public:
  CompressedStream(std::unique_ptr<ByteStream> in, std::string path)
      : in_(std::move(in)), path_(std::move(path)), packed_(kBlock), reader_(archive_read_new()) {
    DML_CHECK(reader_ != nullptr, "libarchive: out of memory");
    archive_read_support_format_raw(reader_.get());
    archive_read_support_format_empty(reader_.get());
    archive_read_support_filter_xz(reader_.get());
    archive_read_support_filter_bzip2(reader_.get());
    archive_read_support_filter_lz4(reader_.get());
    archive_entry* entry = nullptr;
    check(archive_read_open(reader_.get(), this, nullptr, &next_block, nullptr));
    if (const int result = archive_read_next_header(reader_.get(), &entry); result != ARCHIVE_EOF) check(result);
    else at_end_ = true;
  }
  std::size_t read(char* buffer, std::size_t size) override {
    if (at_end_) return 0;
    return read_member(reader_.get(), buffer, size, [&] { fail_damaged(); });
  }

 private:
  // Called by libarchive, through which no exception may pass.
  static la_ssize_t next_block(archive* a, void* self, const void** block) {
    auto& stream = *static_cast<CompressedStream*>(self);
    *block = stream.packed_.data();
    try {
      return static_cast<la_ssize_t>(stream.in_->read(stream.packed_.data(), stream.packed_.size()));
    } catch (...) {
      stream.failure_ = std::current_exception();
      archive_set_error(a, EIO, "not readable");
      return -1;
    }
  }
  void check(int result) const {
    if (result < ARCHIVE_WARN) fail_damaged();
  }
  [[noreturn]] void fail_damaged() const {
    if (failure_) std::rethrow_exception(failure_);
    const char* why = archive_error_string(reader_.get());
    throw UserError("{}: the compressed data is damaged or ends early{}", path_, why ? fmt::format(" ({})", why) : "");
  }

  std::unique_ptr<ByteStream> in_;
  std::string path_;
  std::vector<char> packed_;
  std::exception_ptr failure_;
  bool at_end_ = false;
  ArchiveReader reader_;
};

}  // namespace

std::optional<ArchiveMember> parse_archive_member(const std::string& path) {
  const std::size_t at = path.find(kSeparator);
  if (at == path.npos || !is_archive_name(path.substr(0, at))) return std::nullopt;
  return ArchiveMember{path.substr(0, at), path.substr(at + kSeparator.size())};
}

std::vector<std::string> archive_members(const std::string& archive) {
  const ArchiveReader reader = open_reader(archive);
  std::vector<std::string> out;
  std::set<std::string> seen;
  archive_entry* entry = nullptr;
  for (std::string name = next_member(archive, reader.get(), entry); !name.empty();
       name = next_member(archive, reader.get(), entry)) {
    if (name.starts_with('.') || name.find("/.") != name.npos || name.starts_with("__MACOSX")) continue;
    if (out.size() == kMaxMembers) throw UserError("{}: more than {} files", archive, kMaxMembers);
    if (!seen.insert(name).second) throw UserError("{}: holds two files named '{}'", archive, name);
    out.push_back(name);
  }
  return out;
}

std::unique_ptr<ByteStream> open_archive_member(const ArchiveMember& place) {
  return std::make_unique<MemberStream>(place);
}

bool is_compressed(std::string_view head) {
  return head.starts_with(std::string_view("\xfd"
                                           "7zXZ\0",
                                           6)) ||
         (head.starts_with("BZh") && head.substr(4).starts_with("1A")) || head.starts_with("\x04\x22\x4d\x18");
}

std::unique_ptr<ByteStream> open_compressed(std::unique_ptr<ByteStream> in, std::string path) {
  return std::make_unique<CompressedStream>(std::move(in), std::move(path));
}

}  // namespace dml
