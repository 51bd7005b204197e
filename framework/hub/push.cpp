#include "hub/push.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "core/base64.h"
#include "core/descriptor.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/sha.h"
#include "core/shown.h"
#include "core/size_text.h"

namespace dml {
namespace {

constexpr std::size_t kSample = 512, kFilesPerCall = 256;
constexpr std::uint64_t kMaxRegular = 10'485'760;  // maximum size of a file that is sent in the commit itself
constexpr const char* kLfs = "application/vnd.git-lfs+json";

// Random access to a file in pieces.
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)), file_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (!file_) throw IoError(path_, "cannot open");
  }

  /// Returns the number of bytes read; 0 at the end and on errors, which the receiver notices by the size.
  std::size_t read(std::uint64_t offset, char* to, std::size_t most) const {
    while (true) {
      const ssize_t n = pread(file_.get(), to, most, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      return n < 0 ? 0 : static_cast<std::size_t>(n);
    }
  }

 private:
  std::string path_;
  Descriptor file_;
};

std::string sha256_of(const std::string& path, std::uint64_t size) {
  const Reader reader(path);
  Sha256 sha;
  std::string piece(std::size_t{1} << 20, '\0');
  for (std::uint64_t at = 0; at < size;) {
    const std::size_t n = reader.read(at, piece.data(), piece.size());
    if (n == 0) throw IoError(fmt::format("{}: changed while it was read", path));
    sha.update(piece.data(), n);
    at += n;
  }
  return sha.hex();
}

class Push {
 public:
  Push(const HubClient& client, const PushRequest& request)
      : client_(client),
        request_(request),
        what_(fmt::format("{} {}", name_of(request.kind), request.id)),
        choice_(files_to_push(request)),
        files_(choice_.files) {}

  Pushed run() {
    count_files();
    name_left_out();
    if (request_.dry_run) return std::move(out_);
    make_repository();
    for (std::size_t i = 0; i < files_.size(); i += kFilesPerCall)
      query_upload_modes(i, std::min(files_.size(), i + kFilesPerCall));
    leave_out_ignored();
    std::vector<const LocalFile*> large;
    for (const LocalFile& file : files_)
      if (is_large_.at(file.path)) large.push_back(&file);
    for (const LocalFile* file : large) digests_[file->path] = sha256_of(local(file->path), file->size);
    for (std::size_t i = 0; i < large.size(); i += kFilesPerCall)
      upload({large.begin() + static_cast<std::ptrdiff_t>(i),
              large.begin() + static_cast<std::ptrdiff_t>(std::min(large.size(), i + kFilesPerCall))});
    commit();
    return std::move(out_);
  }

 private:
  void count_files() {
    out_.files = files_;
    out_.bytes = 0;
    for (const LocalFile& file : files_) out_.bytes += file.size;
  }

  // The Hub ignores what the .gitignore of the repository names.
  void leave_out_ignored() {
    if (ignored_.empty()) return;
    std::erase_if(files_, [&](const LocalFile& file) { return ignored_.contains(file.path); });
    if (files_.empty())
      throw UserError("{}: nothing to push: the .gitignore of the repository excludes every file", what_);
    log_warning("{}: files that the .gitignore of the repository excludes are not pushed: {}", what_,
                fmt::join(ignored_, ", "));
    count_files();
  }

  std::string local(const std::string& path) const { return request_.folder + "/" + path; }
  std::string remote(const std::string& path) const {
    return request_.below.empty() ? path : request_.below + "/" + path;
  }

  WebRequest post(const std::string& url, std::string body, const char* type = "application/json") const {
    WebRequest request = WebRequest::get(url);
    request.method = "POST";
    request.headers = {fmt::format("Content-Type: {}", type)};
    request.body = std::move(body);
    return request;
  }

  // Only of datasets: what is left out beside a model is what runs write there.
  void name_left_out() const {
    const std::vector<std::string>& names = choice_.left_out;
    if (request_.kind != HubKind::dataset || names.empty()) return;
    constexpr std::size_t kNamed = 20;
    const std::size_t n = std::min(names.size(), kNamed);
    log_warning(
        "{}: these files are not pushed, because dml reads no rows from them: {}{}; use --include to choose the files",
        what_, fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(n), ", "),
        names.size() > n ? fmt::format(" and {} more", names.size() - n) : "");
  }

  bool repository_exists() const {
    const WebAnswer answer = client_.send(WebRequest::get(client_.api(request_.kind, request_.id)));
    return answer.failure.empty() && answer.status == 200;
  }

  void make_repository() const {
    const std::size_t slash = request_.id.find('/');
    const Json body{{"name", request_.id.substr(slash + 1)},
                    {"type", name_of(request_.kind)},
                    {"private", request_.make_private},
                    {"organization", request_.id.substr(0, slash)}};
    const WebAnswer answer = client_.send(post(client_.options().endpoint + "/api/repos/create", dump(body)));
    constexpr int kExists = 409, kForbidden = 403;
    // A token for one repository may not create any.
    if (answer.status != kExists && !(answer.status == kForbidden && repository_exists()))
      client_.require_success(answer, what_);
    // Pull requests (refs/pr/1) are no branches that one could create.
    if (request_.revision != "main" && !request_.revision.starts_with("refs/")) {
      const WebAnswer branch = client_.send(
          post(client_.api(request_.kind, request_.id) + "/branch/" + url_encoded(request_.revision), "{}"));
      if (branch.status != kExists) client_.require_success(branch, what_ + ", branch " + request_.revision);
    }
  }

  // Asks the Hub which files belong in LFS, sending the first bytes of each, and which it ignores.
  void query_upload_modes(std::size_t first, std::size_t last) {
    Json list = Json::array();
    for (std::size_t i = first; i < last; ++i) {
      std::string sample(kSample, '\0');
      sample.resize(Reader(local(files_[i].path)).read(0, sample.data(), kSample));
      list.push_back({{"path", remote(files_[i].path)}, {"sample", to_base64(sample)}, {"size", files_[i].size}});
    }
    const std::string url = client_.api(request_.kind, request_.id) + "/preupload/" + url_encoded(request_.revision);
    const Json answer = client_.json(post(url, dump({{"files", list}})), what_);
    std::map<std::string, bool> said;
    std::set<std::string> ignored;
    if (answer.is_object() && answer.contains("files") && answer["files"].is_array())
      for (const Json& file : answer["files"])
        if (file.is_object()) {
          const std::string path = json_string(file, "path", "", what_);
          said[path] = json_string(file, "uploadMode", "", what_) == "lfs";
          if (json_bool(file, "shouldIgnore", false, what_)) ignored.insert(path);
        }
    for (std::size_t i = first; i < last; ++i) {
      const auto found = said.find(remote(files_[i].path));
      if (ignored.contains(remote(files_[i].path))) ignored_.insert(files_[i].path);
      is_large_[files_[i].path] = found == said.end() ? files_[i].size > kMaxRegular : found->second;
    }
  }

  void upload(const std::vector<const LocalFile*>& files) {
    if (files.empty()) return;
    Json objects = Json::array();
    std::map<std::string, const LocalFile*> by_digest;
    for (const LocalFile* file : files)
      if (by_digest.emplace(digests_.at(file->path), file).second)
        objects.push_back({{"oid", digests_.at(file->path)}, {"size", file->size}});
    WebRequest request = post(fmt::format("{}/{}{}.git/info/lfs/objects/batch", client_.options().endpoint,
                                          request_.kind == HubKind::dataset ? "datasets/" : "", request_.id),
                              dump({{"operation", "upload"},
                                    {"transfers", {"basic", "multipart"}},
                                    {"objects", objects},
                                    {"hash_algo", "sha256"}}),
                              kLfs);
    request.headers.push_back(fmt::format("Accept: {}", kLfs));
    const Json answer = client_.json(std::move(request), what_);
    if (!answer.is_object() || !answer.contains("objects") || !answer["objects"].is_array())
      throw IoError(fmt::format("{}: the LFS server names no objects", what_));
    for (const Json& object : answer["objects"]) {
      const auto found = by_digest.find(object.is_object() ? json_string(object, "oid", "", what_) : "");
      if (found == by_digest.end()) continue;
      if (object.contains("error"))
        throw IoError(fmt::format("{}: {}: the LFS server refuses it: {}", what_, found->second->path,
                                  shown(dump(object["error"]), 200)));
      const Json actions = object.value("actions", Json::object());
      if (!actions.is_object() || !actions.contains("upload")) continue;  // the Hub has this file already
      log_info("{}: pushing {}, {}", what_, found->second->path, size_text(found->second->size));
      upload_one(*found->second, found->first, actions["upload"]);
      if (actions.contains("verify"))
        client_.require_success(client_.send(post(json_string(actions["verify"], "href", "", what_),
                                                  dump({{"oid", found->first}, {"size", found->second->size}}), kLfs)),
                                what_);
      out_.sent += found->second->size;
    }
  }

  // Uploads to the hosts that the LFS server names; the token is sent to the Hub only.
  WebAnswer put(const std::string& url, const Reader& reader, std::uint64_t begin, std::uint64_t size,
                const std::string& path) const {
    WebRequest request = WebRequest::get(url);
    request.method = "PUT";
    request.size = size;
    request.source = [&reader, begin](std::uint64_t offset, char* to, std::size_t most) {
      return reader.read(begin + offset, to, most);
    };
    WebAnswer answer = client_.send(std::move(request));
    client_.require_success(answer, fmt::format("{}: {}", what_, path));
    return answer;
  }

  void upload_one(const LocalFile& file, const std::string& digest, const Json& action) const {
    const std::string href = json_string(action, "href", "", what_);
    const Json header = action.value("header", Json::object());
    const Reader reader(local(file.path));
    if (!header.is_object() || !header.contains("chunk_size")) {
      put(href, reader, 0, file.size, file.path);
      return;
    }
    const Json& given = header["chunk_size"];
    const std::uint64_t part = given.is_string() ? std::strtoull(given.get<std::string>().c_str(), nullptr, 10)
                               : given.is_number_unsigned() ? given.get<std::uint64_t>()
                                                            : 0;
    std::map<std::uint64_t, std::string> urls;  // URLs of parts, by number
    for (auto& [key, value] : header.items())
      if (!key.empty() && key.find_first_not_of("0123456789") == std::string::npos && value.is_string())
        urls[std::strtoull(key.c_str(), nullptr, 10)] = value.get<std::string>();
    if (part == 0 || urls.size() != (file.size + part - 1) / part)
      throw IoError(fmt::format("{}: {}: the LFS server gives {} addresses for {} bytes in parts of {}", what_,
                                file.path, urls.size(), file.size, part));
    Json parts = Json::array();
    std::uint64_t begin = 0;
    for (const auto& [number, url] : urls) {
      const WebAnswer answer = put(url, reader, begin, std::min(part, file.size - begin), file.path);
      if (answer.header("etag").empty())
        throw IoError(fmt::format("{}: {}: part {} was answered without an ETag", what_, file.path, number));
      parts.push_back({{"partNumber", number}, {"etag", answer.header("etag")}});
      begin += part;
    }
    WebRequest complete = post(href, dump({{"oid", digest}, {"parts", parts}}), kLfs);
    complete.headers.push_back(fmt::format("Accept: {}", kLfs));
    client_.require_success(client_.send(std::move(complete)), what_);
  }

  void commit() {
    std::string lines =
        dump({{"key", "header"}, {"value", {{"summary", request_.message}, {"description", ""}}}}) + "\n";
    for (const LocalFile& file : files_) {
      Json value{{"path", remote(file.path)}};
      if (is_large_.at(file.path)) {
        value.update({{"algo", "sha256"}, {"oid", digests_.at(file.path)}, {"size", file.size}});
      } else {
        value.update({{"content", to_base64(read_file(local(file.path), kMaxRegular))}, {"encoding", "base64"}});
      }
      lines += dump({{"key", is_large_.at(file.path) ? "lfsFile" : "file"}, {"value", value}}) + "\n";
    }
    const std::string url = client_.api(request_.kind, request_.id) + "/commit/" + url_encoded(request_.revision);
    const Json answer = client_.json(post(url, std::move(lines), "application/x-ndjson"), what_);
    if (answer.is_object()) out_.url = json_string(answer, "commitUrl", "", what_);
  }

  const HubClient& client_;
  const PushRequest& request_;
  const std::string what_;
  const FilesToPush choice_;
  std::vector<LocalFile> files_;  // of choice_, except those that the Hub ignores
  std::set<std::string> ignored_;
  std::map<std::string, bool> is_large_;
  std::map<std::string, std::string> digests_;
  Pushed out_;
};

}  // namespace

Pushed push_to_hub(const HubClient& client, const PushRequest& request) {
  if (!parse_hub_name(request.id) || request.id.find('@') != std::string::npos ||
      request.id.find('/') == std::string::npos)
    throw UserError("'{}' is not a repository name; expected org/name", request.id);
  if (!request.dry_run) {
    if (client.options().offline) throw UserError("{}: HF_HUB_OFFLINE is set, nothing is pushed", request.id);
    if (client.options().token.empty())
      throw UserError("{}: a push needs a token with write access: set HF_TOKEN, or log in with `hf auth login`",
                      request.id);
  }
  return Push(client, request).run();
}

}  // namespace dml
