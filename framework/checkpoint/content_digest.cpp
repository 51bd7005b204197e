#include "checkpoint/content_digest.h"

#include "core/error.h"
#include "core/file_identity.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/log.h"

namespace dml {
namespace {

constexpr std::size_t kRemembered = 1000;
constexpr JsonLimits kMemoLimits{std::size_t{1} << 20, 4, 2 * kRemembered, 8 * kRemembered};

std::string identity(const std::string& path) {
  std::string out = file_identity(path);
  if (out.empty()) throw UserError("{}: no such file", path);
  return out;
}

Json read_memo(const std::string& memo) {
  try {
    if (Json j = file_exists(memo) ? read_json(memo, kMemoLimits) : Json::object(); j.is_object()) return j;
  } catch (const UserError& e) {
    log_debug("{}: not used: {}", memo, e.what());
  }
  return Json::object();
}

std::string remembered(const Json& memo, const std::string& path, const std::string& now) {
  auto row = memo.find(path);
  if (row == memo.end() || !row->is_object() || !row->contains("file") || !row->contains("xxh3")) return "";
  const Json &file = (*row)["file"], &digest = (*row)["xxh3"];
  bool same = file.is_string() && file.get_ref<const std::string&>() == now && digest.is_string();
  return same ? digest.get<std::string>() : "";
}

}  // namespace

std::string content_digest(const std::vector<std::string>& paths, const std::string& memo) {
  Json known = read_memo(memo);
  bool changed = false;
  Hasher all;
  for (const std::string& given : paths) {
    std::string path = real_path(given), before = identity(path), digest = remembered(known, path, before);
    if (digest.empty()) {
      digest = digest_of_file(path);
      if (identity(path) != before) throw UserError("{}: changed while it was read", given);
      if (known.size() >= kRemembered) known = Json::object();
      known[path] = {{"file", before}, {"xxh3", digest}};
      changed = true;
    }
    all.text(digest);
  }
  try {
    if (changed) write_file(memo, known.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const IoError& e) {
    log_debug("{}", e.what());
  }
  return all.digest();
}

}  // namespace dml
