#include "hub/listing.h"

#include <algorithm>

#include "core/error.h"
#include "core/shown.h"
#include "core/text.h"
#include "core/utf8.h"

namespace dml {
namespace {

constexpr std::size_t kMaxPages = 1000, kMaxFiles = 200'000;

// The URL of the next page from the header Link: <URL>; rel="next"; only at the endpoint itself.
std::string next_page(const WebAnswer& answer, const std::string& endpoint) {
  const std::string link = answer.header("link");
  if (link.find("rel=\"next\"") == link.npos || !link.starts_with('<')) return {};
  std::string url = link.substr(1, link.find('>') - 1);
  if (url.starts_with('/')) url = endpoint + url;
  return origin_of(url) == origin_of(endpoint) ? url : "";
}

void add_file(const Json& entry, const std::string& what, HubListing& out) {
  if (!entry.is_object() || json_string(entry, "type", "", what) != "file") return;
  HubFile file;
  file.path = json_string(entry, "path", "", what);
  if (!is_safe_hub_path(file.path))
    throw UserError("{}: the file name '{}' is not safe to create", what, shown(file.path, 80));
  const Json lfs = entry.value("lfs", Json());
  const bool large = lfs.is_object();
  const std::int64_t size = json_integer(large && lfs.contains("size") ? lfs : entry, "size", -1, what);
  file.digest = json_string(large ? lfs : entry, "oid", "", what);
  if (size < 0 || !is_hex(file.digest, large ? 64 : 40))
    throw UserError("{}: '{}' is listed without its size or digest", what, file.path);
  file.size = static_cast<std::uint64_t>(size);
  out.files.push_back(std::move(file));
}

}  // namespace

bool is_safe_hub_path(const std::string& path) {
  constexpr std::size_t kLongestPart = 255, kLongest = 1024;
  if (path.empty() || path.size() > kLongest || path.back() == '/' || find_invalid_utf8(path) != std::string::npos)
    return false;
  if (std::ranges::any_of(path, [](unsigned char c) { return c < 32 || c == 127 || c == '\\'; })) return false;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > kLongestPart) return false;
    begin = end + 1;
  }
  return true;
}

HubListing list_hub_files(const HubClient& client, HubKind kind, const HubName& name) {
  const std::string what = fmt::format("{} {}", name_of(kind), name.text()), api = client.api(kind, name.id);
  HubListing out;
  const Json info = client.json(WebRequest::get(api + "/revision/" + url_encoded(name.revision)), what);
  if (info.is_object()) out.commit = json_string(info, "sha", "", what);
  if (!is_hub_commit(out.commit)) throw IoError(fmt::format("{}: {} names no commit", what, client.options().endpoint));
  std::string url = api + "/tree/" + out.commit + "?recursive=true";
  for (std::size_t page = 0; !url.empty(); ++page) {
    WebAnswer answer;
    const Json tree = client.json(WebRequest::get(url), what, &answer);
    if (!tree.is_array() || page == kMaxPages) throw IoError(fmt::format("{}: the list of files is not a list", what));
    for (const Json& entry : tree) add_file(entry, what, out);
    if (out.files.size() > kMaxFiles) throw UserError("{}: more than {} files", what, kMaxFiles);
    url = next_page(answer, client.options().endpoint);
  }
  std::ranges::sort(out.files, {}, &HubFile::path);
  return out;
}

}  // namespace dml
