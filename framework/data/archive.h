// Files inside an archive (.zip, .tar, .tar.gz, .tar.zst, .tar.xz, .tgz), read as streams through libarchive, which
// this file's .cpp alone knows. A member's name is "ARCHIVE::MEMBER"; nothing is ever unpacked to the disk.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_stream.h"

namespace dml {

/// By its name.
bool is_archive_name(std::string_view path);
/// "ARCHIVE::MEMBER" → the two; nothing for other paths.
struct ArchiveMember {
  std::string archive, member;
};
std::optional<ArchiveMember> parse_archive_member(const std::string& path);

/// Regular files of the archive, in its order; hidden ones and __MACOSX are passed over. UserError where it is damaged.
std::vector<std::string> archive_members(const std::string& archive);

/// The bytes of a member, unpacked as they are read.
std::unique_ptr<ByteStream> open_archive_member(const ArchiveMember& place);

}  // namespace dml
