#include "assembly/model_location.h"

#include <map>
#include <mutex>

#include "checkpoint/packed_groups.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/version.h"
#include "exchange/gguf_model.h"
#include "hub/cache.h"

namespace dml {
namespace {

std::string cache_directory() {
  if (const std::string caches = cache_home(); !caches.empty()) return caches + "/dml";
  throw UserError("a GGUF file's tokenizer is unpacked into the user's cache: set XDG_CACHE_HOME or HOME to a folder");
}

// The cache folder, named by its source and the version of this program.
std::string unpacked(const std::string& path) {
  const GgufFile file(path);
  require_model(file);
  const std::string digest = Hasher().text(version()).text(MappedFile(path).text().substr(0, file.front())).digest();
  const std::string folder = cache_directory() + "/gguf/" + digest;
  if (file_exists(folder + "/config.json")) return folder;
  make_directories(cache_directory() + "/gguf");
  DirectoryWriter out(folder);
  write_gguf_companions(file, out.path());
  out.commit();  // or another process has written it
  return folder;
}

}  // namespace

std::string model_directory(const std::string& name) {
  if (!file_exists(name)) return find_in_hub_cache(HubKind::model, name).value_or(name);
  if (!is_gguf_file(name)) return name;
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& folder = known[real_path(name)];
  if (folder.empty()) folder = unpacked(name);
  return folder;
}

void require_parts(const std::string& name, const SnapshotParts& needed) {
  if (name.empty() || file_exists(name)) return;
  const auto folder = find_in_hub_cache(HubKind::model, name);
  const std::string lacking = folder ? lacking_parts(*folder, needed) : "";
  if (!lacking.empty()) throw UserError(partial_model_text(name, *folder, lacking));
}

void set_base(AdapterConfig& config, const std::string& name) {
  config.base_model = name;
  const auto parsed = file_exists(name) ? std::nullopt : parse_hub_name(name);
  if (!parsed) return;
  config.base_model = parsed->id;
  if (parsed->revision != HubName().revision) config.revision = parsed->revision;
}

ModelFiles open_model_files(const std::string& name, const ModelSpec& spec) {
  if (!is_gguf_file(name)) {
    const std::string folder = model_directory(name), config = folder + "/config.json";
    ModelFiles files(folder);
    const PackedConfig packed =
        file_exists(config) ? packed_config(read_json(config, {.bytes = 1 << 20}), config) : PackedConfig();
    return packed.format == PackedFormat::none ? std::move(files) : unpack_groups(std::move(files), packed, spec);
  }
  return gguf_weights(std::make_shared<GgufFile>(name), spec);
}

}  // namespace dml
