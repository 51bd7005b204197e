// Files inside an archive (.zip, .tar, .tar.gz, .tar.zst, .tar.xz, .tgz) and files compressed with xz, bzip2 or lz4,
// read as streams through libarchive, included in archive.cpp only. A member's name is "ARCHIVE::MEMBER"; nothing is
// extracted to disk.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_stream.h"

namespace dml {

/// Splits "ARCHIVE::MEMBER"; empty for other paths.
struct ArchiveMember {
  std::string archive, member;
};
std::optional<ArchiveMember> parse_archive_member(const std::string& path);

/// The regular files of the archive, in its order, without hidden files and __MACOSX. UserError when it is damaged.
std::vector<std::string> archive_members(const std::string& archive);

/// A stream of a member's bytes, decompressed as they are read.
std::unique_ptr<ByteStream> open_archive_member(const ArchiveMember& place);

/// Whether data that begin so are compressed with xz, bzip2 or lz4.
bool is_compressed(std::string_view head);
/// Decompresses them. `path`: for messages.
std::unique_ptr<ByteStream> open_compressed(std::unique_ptr<ByteStream> in, std::string path);

}  // namespace dml
