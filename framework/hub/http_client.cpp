#include "hub/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "core/error.h"
#include "core/shown.h"
#include "core/text.h"
#include "core/version.h"

namespace dml {
namespace {

constexpr std::size_t kMaxBody = std::size_t{32} << 20, kMaxHeaders = std::size_t{256} << 10;
constexpr int kMaxRedirects = 5;

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// One handle per thread, which reuses its connections.
CURL* handle() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  thread_local std::unique_ptr<CURL, CurlDeleter> curl(curl_easy_init());
  DML_CHECK(curl != nullptr, "curl_easy_init failed");
  return curl.get();
}

// The state of one request (without redirects) for the callbacks.
struct Hop {
  const WebRequest& request;
  WebAnswer& answer;
  bool at_first_host = true;
  std::size_t header_bytes = 0;
  std::uint64_t sent = 0;
  std::exception_ptr error = {};  // of a callback, rethrown once libcurl has returned

  bool is_wanted() const { return request.take && answer.status < 300; }
};

// Calls a part of a request for libcurl, through which no exception may pass: `failed` ends the request.
template <class Call>
std::size_t guarded(void* context, std::size_t failed, Call&& call) noexcept {
  Hop& hop = *static_cast<Hop*>(context);
  try {
    return call(hop);
  } catch (...) {
    hop.error = std::current_exception();
    return failed;
  }
}

std::size_t read_header(Hop& hop, const char* text, std::size_t size) {
  hop.header_bytes += size;
  if (hop.header_bytes > kMaxHeaders) return 0;
  std::string_view line(text, size);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    const std::size_t space = line.find(' ');
    hop.answer.headers.clear();
    hop.answer.status = space == line.npos ? 0 : std::atoi(std::string(line.substr(space + 1, 3)).c_str());
  } else if (const std::size_t colon = line.find(':'); colon != line.npos) {
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    std::string& entry = hop.answer.headers[ascii_lower(line.substr(0, colon))];
    entry += (entry.empty() ? "" : ", ") + std::string(value);
  }
  return size;
}

std::size_t read_body(Hop& hop, const char* text, std::size_t size) {
  if (hop.at_first_host && hop.answer.first.empty()) hop.answer.first = hop.answer.headers;
  if (hop.is_wanted()) {
    if (hop.request.take(hop.answer, {text, size})) return size;
    hop.answer.refused = true;
    return 0;
  }
  if (hop.answer.body.size() + size > kMaxBody) return 0;
  hop.answer.body.append(text, size);
  return size;
}

std::size_t write_upload(Hop& hop, char* to, std::size_t most) {
  if (hop.sent == hop.request.size) return 0;
  const std::size_t n = hop.request.source(hop.sent, to, std::min<std::uint64_t>(most, hop.request.size - hop.sent));
  hop.sent += n;
  return n == 0 ? CURL_READFUNC_ABORT : n;
}

std::size_t on_header(char* text, std::size_t, std::size_t size, void* context) {
  return guarded(context, 0, [&](Hop& hop) { return read_header(hop, text, size); });
}

std::size_t on_body(char* text, std::size_t, std::size_t size, void* context) {
  return guarded(context, 0, [&](Hop& hop) { return read_body(hop, text, size); });
}

std::size_t on_upload(char* to, std::size_t, std::size_t most, void* context) {
  return guarded(context, CURL_READFUNC_ABORT, [&](Hop& hop) { return write_upload(hop, to, most); });
}

// Called when libcurl resends a body because a reused connection was closed.
int on_rewind(void* context, curl_off_t offset, int origin) {
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Hop*>(context)->sent = static_cast<std::uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

void set_common(CURL* curl, const WebRequest& request, const std::string& url) {
  const bool plain = url.starts_with("http://");
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, plain ? "http" : "https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(request.stall_seconds)));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  const std::string agent = fmt::format("dml/{}; curl/{}", version(), curl_version_info(CURLVERSION_NOW)->version);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, agent.c_str());
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"})
    if (const char* file = std::getenv(name); file && *file) {
      curl_easy_setopt(curl, CURLOPT_CAINFO, file);
      break;
    }
}

void set_method(CURL* curl, const WebRequest& request, Hop& hop) {
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request.source) {
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.size));
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_upload);
    curl_easy_setopt(curl, CURLOPT_READDATA, &hop);
    curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_rewind);
    curl_easy_setopt(curl, CURLOPT_SEEKDATA, &hop);
  } else if (request.method != "GET") {
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  }
  if (request.method != "GET" && request.method != "HEAD")
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

void perform(const WebRequest& request, const std::string& url, WebAnswer& answer) {
  CURL* curl = handle();
  Hop hop{request, answer, origin_of(url) == origin_of(request.url)};
  set_common(curl, request, url);
  set_method(curl, request, hop);
  curl_slist* lines = nullptr;
  auto add = [&](const std::string& line) { lines = curl_slist_append(lines, line.c_str()); };
  for (const std::string& line : request.headers) add(line);
  if (!request.token.empty() && origin_of(url) == request.token_origin) add("Authorization: Bearer " + request.token);
  add("Expect:");
  const std::unique_ptr<curl_slist, CurlDeleter> owner(lines);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lines);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &hop);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &hop);
  // The thread keeps the handle, but nothing of this request may stay in it.
  const std::unique_ptr<CURL, decltype(&curl_easy_reset)> cleared(curl, curl_easy_reset);
  char words[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words);
  answer.url = url;
  const CURLcode code = curl_easy_perform(curl);
  if (hop.error) std::rethrow_exception(hop.error);
  if (hop.at_first_host) answer.first = answer.headers;
  if (code != CURLE_OK) answer.failure = *words ? words : curl_easy_strerror(code);
}

// The target of a redirect; "" and a failure if it must not be followed.
std::string redirect_of(WebAnswer& answer, const std::string& from) {
  std::string to = answer.header("location");
  if (to.empty()) answer.failure = "a redirect without a Location";
  else if (to.starts_with('/') && !to.starts_with("//")) return origin_of(from) + to;
  else if (!to.starts_with("https://") && !(to.starts_with("http://") && from.starts_with("http://")))
    answer.failure = fmt::format("a redirect from {} to {}", origin_of(from), shown(to, 60));
  return answer.failure.empty() ? to : "";
}

}  // namespace

std::string WebAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

WebAnswer send_once(const WebRequest& request) {
  std::string url = request.url;
  WebHeaders first;
  for (int hop = 0;; ++hop) {
    WebAnswer answer;
    answer.writes = request.method != "GET";
    if (origin_of(url) != origin_of(request.url)) answer.first = first;
    perform(request, url, answer);
    first = answer.first;
    const bool redirected =
        answer.failure.empty() && answer.status >= 301 && answer.status <= 308 && answer.status != 304;
    if (!redirected) return answer;
    url = redirect_of(answer, url);
    if (hop == kMaxRedirects) answer.failure = fmt::format("more than {} redirects", kMaxRedirects);
    answer.redirect_refused = !answer.failure.empty();
    if (answer.redirect_refused) return answer;
  }
}

std::string origin_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == url.npos) return {};
  return ascii_lower(url.substr(0, url.find_first_of("/?#", scheme + 3)));
}

std::string url_encoded(std::string_view text, std::string_view keep) {
  std::string out;
  for (unsigned char c : text) {
    const bool plain = (c < 128 && std::isalnum(c)) || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain || keep.find(static_cast<char>(c)) != keep.npos) out += static_cast<char>(c);
    else out += fmt::format("%{:02X}", c);
  }
  return out;
}

}  // namespace dml
