#include "serve/request_fault.h"

#include <algorithm>
#include <set>

#include "core/text.h"

namespace dml {
namespace {

constexpr std::size_t kMaxHeaders = 100, kHeaderBytes = 32 << 10, kLongestPath = 8 << 10;

bool known_method(const std::string& method) {
  static const std::set<std::string> known{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"};
  return known.contains(method);
}

}  // namespace

void use_origin_form(HttpRequest& r) {
  const std::string scheme = ascii_lower(r.path.substr(0, 8));
  const std::size_t begin = scheme.starts_with("http://") ? 7 : scheme == "https://" ? 8 : 0;
  if (begin == 0) return;
  const std::size_t end = std::min(r.path.find('/', begin), r.path.size());
  if (const auto host = r.headers.find("host"); host != r.headers.end())
    host->second = r.path.substr(begin, end - begin);
  r.path.erase(0, end);
  if (r.path.empty()) r.path = "/";
}

std::pair<int, std::string> request_fault(const HttpRequest& r, const std::string& version, std::size_t body_bytes) {
  if (!known_method(r.method)) return {501, "unknown method"};
  if (r.path.size() > kLongestPath) return {414, "the path is too long"};
  if (r.headers.size() > kMaxHeaders) return {431, "too many header fields"};
  std::size_t bytes = 0;
  for (auto& [name, value] : r.headers) bytes += name.size() + value.size();
  if (bytes > kHeaderBytes) return {431, "the header fields are too large"};
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return {505, "the server speaks HTTP/1.1"};
  if (r.headers.count("host") != 1 && version == "HTTP/1.1") return {400, "a request has exactly one Host header"};
  const auto lengths = r.headers.count("content-length"), codings = r.headers.count("transfer-encoding");
  if (lengths > 1 || codings > 1 || (lengths > 0 && codings > 0))
    return {400, "the length of the request is given twice"};
  if (codings > 0 && ascii_lower(r.header("transfer-encoding")) != "chunked") return {501, "unknown Transfer-Encoding"};
  if (lengths > 0) {
    const std::string length = r.header("content-length");
    if (length.empty() || length.size() > 18 || length.find_first_not_of("0123456789") != length.npos)
      return {400, "Content-Length is not a number"};
    if (std::stoull(length) > body_bytes) return {413, "the body is too large"};
  } else if (r.method == "POST" && codings == 0) {
    return {411, "a POST has a Content-Length"};
  }
  return {0, ""};
}

}  // namespace dml
