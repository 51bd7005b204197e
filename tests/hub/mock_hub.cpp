#include "hub/mock_hub.h"

#include <cstdlib>
#include <filesystem>
#include <regex>

#include <fmt/format.h>

#include "core/error.h"
#include "core/sha.h"

namespace dml::testing_tools {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kPageOfList = 4;

// "models/org/name" and the rest of a path.
std::pair<std::string, std::string> split(const std::string& path) {
  std::size_t slash = 0;
  for (int i = 0; i < 3 && slash != path.npos; ++i) slash = path.find('/', slash + (i > 0));
  return slash == path.npos ? std::pair{path, std::string()} : std::pair{path.substr(0, slash), path.substr(slash + 1)};
}

// In memory where there is such a place: a thousand downloads would wait for the disk.
std::string make_folder() {
  std::error_code none;
  std::string path =
      (fs::is_directory("/dev/shm", none) ? "/dev/shm" : fs::temp_directory_path().string()) + "/dml-test-XXXXXX";
  DML_CHECK(mkdtemp(path.data()) != nullptr, "no folder can be made like {}", path);
  return path;
}

}  // namespace

MockAnswer MockHub::in_json(int status, const Json& body) { return {.status = status, .body = dump(body)}; }
MockAnswer MockHub::error(int status, const char* said, const char* code) {
  MockAnswer out = in_json(status, {{"error", said}});
  if (code) out.headers.emplace_back("X-Error-Code", code);
  return out;
}

MockHub::File MockHub::file_of(const std::string& content) {
  if (content.size() >= kLargeFrom) return {content, Sha256().update(content).hex(), {}, content.size()};
  const std::string head = fmt::format("blob {}", content.size());
  return {content, Sha1().update(head).update("\0", 1).update(content).hex(), {}, content.size()};
}

bool MockHub::File::is_large() const { return size >= kLargeFrom; }

MockHub::MockHub() : folder_(make_folder()) {
  endpoint_ = std::make_unique<MockServer>([this](const MockRequest& request) { return answer(request, false); });
  cdn_ = std::make_unique<MockServer>([this](const MockRequest& request) { return answer(request, true); });
  setenv("HF_HUB_CACHE", (folder_ + "/cache").c_str(), 1);
  setenv("no_proxy", "127.0.0.1", 1);
  for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"}) unsetenv(name);
}

MockHub::~MockHub() {
  unsetenv("HF_HUB_CACHE");
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void MockHub::add(const std::string& path, const std::string& content) {
  const auto [repository, name] = split(path);
  const std::lock_guard guard(mutex_);
  repositories_[repository][name] = file_of(content);
}

void MockHub::add_made(const std::string& path, std::uint64_t size, const std::string& digest,
                       std::function<void(std::uint64_t, char*, std::size_t)> fill) {
  const auto [repository, name] = split(path);
  const std::lock_guard guard(mutex_);
  repositories_[repository][name] = {"", digest, std::move(fill), size};
}

void MockHub::remove(const std::string& repository) {
  const std::lock_guard guard(mutex_);
  repositories_.erase(repository);
}

std::string MockHub::content(const std::string& path) const {
  const auto [repository, name] = split(path);
  const std::lock_guard guard(mutex_);
  const auto found = repositories_.find(repository);
  return found != repositories_.end() && found->second.contains(name) ? found->second.at(name).content : "";
}

bool MockHub::has(const std::string& path) const {
  const auto [repository, name] = split(path);
  const std::lock_guard guard(mutex_);
  const auto found = repositories_.find(repository);
  return found != repositories_.end() && found->second.contains(name);
}

void MockHub::set_faults(std::map<std::string, MockFault> faults, double rate) {
  const std::lock_guard guard(mutex_);
  faults_ = std::move(faults);
  rate_ = rate;
}

std::string MockHub::requests() const {
  const std::lock_guard guard(mutex_);
  return requests_;
}

void MockHub::forget_requests() {
  const std::lock_guard guard(mutex_);
  requests_.clear();
}

Json MockHub::created() const {
  const std::lock_guard guard(mutex_);
  return created_;
}

HubOptions MockHub::options(const std::string& token) const {
  HubOptions out;
  out.endpoint = endpoint();
  out.token = token;
  out.pause = [](double) {};
  return out;
}

std::optional<MockFault> MockHub::fault(const std::string& name) {
  const auto found = faults_.find(name);
  if (found == faults_.end() || found->second.times <= 0) return std::nullopt;
  if (std::uniform_real_distribution<double>()(random_) >= rate_) return std::nullopt;
  --found->second.times;
  return found->second;
}

MockAnswer MockHub::answer(const MockRequest& request, bool cdn) {
  const std::lock_guard guard(mutex_);
  requests_ += fmt::format("{} {} {} {} {}\n", (cdn ? cdn_ : endpoint_)->port(), request.method, request.target,
                           request.header("range", "-"), request.header("authorization", "-"));
  if (auto refused = refusal()) return *refused;
  if (request.method == "PUT") return put(request);
  return request.method == "POST" ? post(request, cdn) : get(request, cdn);
}

std::optional<MockAnswer> MockHub::refusal() {
  if (const auto limited = fault("429")) {
    MockAnswer out = error(429, "too many requests");
    if (limited->number >= 0) out.headers.emplace_back("Retry-After", std::to_string(limited->number));
    return out;
  }
  if (const auto status = fault("status")) return error(status->number, "the server has a problem");
  if (fault("hang up")) return MockAnswer{.hang_up = true};
  if (fault("html")) return MockAnswer{.body = "<html>Please log in</html>", .type = "text/html"};
  return std::nullopt;
}

MockAnswer MockHub::get(const MockRequest& request, bool cdn) {
  static const std::regex api("/api/((models|datasets)/[^/]+/[^/]+)/(revision|tree)/(.+)"),
      file_of("/(datasets/)?([^/]+/[^/]+)/resolve/[^/]+/(.+)"), about("/api/((models|datasets)/[^/]+/[^/]+)");
  std::smatch match;
  if (cdn) {
    const auto [repository, name] = split(request.path.substr(5));  // /cdn/
    return transfer(request, repositories_.at(repository).at(name), {});
  }
  if (std::regex_match(request.path, match, api)) return listing(request, match[1], match[3], match[4]);
  if (std::regex_match(request.path, match, about))
    return no_access(match[1], request).value_or(in_json(200, {{"id", match[1].str()}}));
  if (std::regex_match(request.path, match, file_of))
    return resolve(request, (match[1].matched ? "datasets/" : "models/") + match[2].str(), match[3]);
  return error(404, "no such page");
}

std::optional<MockAnswer> MockHub::no_access(const std::string& repository, const MockRequest& request) const {
  if (repository.find("/gated/") != repository.npos)
    return error(403, "Access to this model is restricted", "GatedRepo");
  if (repository.find("/private/") != repository.npos && request.header("authorization") != kToken)
    return error(401, "Invalid username or password.");
  if (!repositories_.contains(repository)) return error(404, "Repository not found", "RepoNotFound");
  return std::nullopt;
}

std::string MockHub::commit_of(const std::string& repository) const {
  Sha1 sha;
  for (const auto& [name, file] : repositories_.at(repository)) sha.update(name).update(file.digest);
  return sha.hex();
}

MockAnswer MockHub::listing(const MockRequest& request, const std::string& repository, const std::string& what,
                            const std::string& revision) {
  if (repository == "models/old/name") {
    std::string place = request.target;
    place.replace(place.find("old/name"), 8, "org/model");
    return {.status = 307, .headers = {{"Location", place}}};
  }
  if (auto refused = no_access(repository, request)) return *refused;
  const std::string commit = commit_of(repository);
  if (revision != "main" && revision != "v1" && revision != "refs/pr/1" && revision != commit)
    return error(404, "Invalid rev id", "RevisionNotFound");
  const Repository& files = repositories_.at(repository);
  if (what == "revision") return in_json(200, {{"sha", commit}});
  if (const auto name = fault("bad name"))
    return in_json(200,
                   Json::array({{{"type", "file"}, {"path", name->text}, {"size", 1}, {"oid", std::string(40, '0')}}}));
  const std::size_t cursor = request.query.find("cursor="),
                    from = cursor == request.query.npos ? 0 : std::stoul(request.query.substr(cursor + 7));
  Json page = Json::array();
  std::size_t number = 0;
  for (const auto& [name, file] : files) {
    if (number++ < from || page.size() == kPageOfList) continue;
    page.push_back({{"type", "file"},
                    {"path", name},
                    {"size", file.size},
                    {"oid", file.is_large() ? std::string(40, '0') : file.digest}});
    if (file.is_large()) page.back()["lfs"] = {{"oid", file.digest}, {"size", file.size}, {"pointerSize", 130}};
  }
  MockAnswer out = in_json(200, page);
  if (from + kPageOfList < files.size())
    out.headers.emplace_back("Link", fmt::format("<{}{}?recursive=true&cursor={}>; rel=\"next\"", endpoint(),
                                                 request.path, from + kPageOfList));
  return out;
}

MockAnswer MockHub::resolve(const MockRequest& request, const std::string& repository, const std::string& path) {
  if (auto refused = no_access(repository, request)) return *refused;
  if (fault("not a hub")) return {.body = "hello", .type = "text/plain"};
  Repository& files = repositories_.at(repository);
  if (!files.contains(path)) return error(404, "Entry not found", "EntryNotFound");
  if (const auto changed = fault("change")) files[path] = file_of(changed->text);
  const File& wanted = files.at(path);
  MockAnswer out;
  out.headers = {{"X-Repo-Commit", commit_of(repository)},
                 {wanted.is_large() ? "X-Linked-Etag" : "ETag", '"' + wanted.digest + '"'}};
  std::string place;
  if (fault("redirect loop")) place = request.target;
  else if (fault("redirect to a file")) place = "file:///etc/passwd";
  else if (wanted.is_large()) place = fmt::format("{}/cdn/{}/{}", cdn_->address(), repository, path);
  if (place.empty()) return transfer(request, wanted, std::move(out));
  out.status = 302;
  out.headers.emplace_back("Location", place);
  return out;
}

// A file, in whole or in part, with the faults of transfers.
MockAnswer MockHub::transfer(const MockRequest& request, const File& file, MockAnswer out) {
  out.type = "application/octet-stream";
  if (const auto cut = fault("cut"))
    out.cut = cut->number >= 0 ? static_cast<std::uint64_t>(cut->number) : random_() % (file.size + 1);
  if (const auto halt = file.is_large() ? fault("halt") : std::nullopt)
    out.cut = static_cast<std::uint64_t>(halt->number), out.halt = true;
  std::string content = file.content;
  if (!content.empty() && fault("wrong bytes")) content[0] = static_cast<char>(content[0] ^ 1);
  if (fault("416")) {
    out.status = 416;
    return out;
  }
  if (fault("longer")) content += "more";
  out.chunked = fault("chunked").has_value();
  std::uint64_t begin = 0, end = file.fill ? file.size : content.size();
  const std::string range = request.header("range");
  if (!out.chunked && !range.empty() && !fault("no ranges")) {
    const std::size_t dash = range.find('-');
    begin = std::stoull(range.substr(6, dash - 6));  // bytes=
    const std::string last = range.substr(dash + 1);
    if (!last.empty()) end = std::min<std::uint64_t>(end, std::stoull(last) + 1);
    if (begin >= end) {
      out.status = 416;
      return out;
    }
    out.status = 206;
    out.headers.emplace_back("Content-Range", fmt::format("bytes {}-{}/{}", begin, end - 1, file.size));
  }
  if (file.fill) {
    out.source = [fill = file.fill, begin](std::uint64_t offset, char* to, std::size_t count) {
      fill(begin + offset, to, count);
    };
    out.size = end - begin;
  } else {
    out.body = content.substr(begin, end - begin);
  }
  return out;
}

std::string varied_bytes(std::size_t size, unsigned seed) {
  std::string out(size, '\0');
  unsigned state = seed * 2654435761u + 1;
  for (char& c : out) c = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  return out;
}

}  // namespace dml::testing_tools
