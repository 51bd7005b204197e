// HTTP requests through libcurl, which only http_client.cpp includes. Redirects are followed here, so that the token is
// sent to its own host only; no body is held in memory unless it is small.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dml {

/// Header names in lower case.
using WebHeaders = std::map<std::string, std::string>;

struct WebAnswer {
  int status = 0;  // 0: there was none
  WebHeaders headers;
  std::string body;      // at most 32 MiB; of an answer that `take` received, "" unless it is an error
  std::string url;       // where the answer came from, after all redirects
  WebHeaders first;      // headers of the first answer, before any redirect to another host
  std::string failure;   // "" when the answer arrived whole, else libcurl's words
  bool refused = false;  // `take` returned false

  std::string header(const std::string& name) const;
};

struct WebRequest {
  static WebRequest get(std::string url) {
    WebRequest request;
    request.url = std::move(url);
    return request;
  }

  std::string method = "GET", url;
  std::vector<std::string> headers;  // "Name: value"
  std::string token;                 // of `token_origin`; goes nowhere else, whatever the redirects
  std::string token_origin;          // "https://host[:port]"
  std::string body;
  /// Instead of `body`: `size` bytes, read in pieces from `offset` on; 0 bytes read is an error.
  std::function<std::size_t(std::uint64_t offset, char* to, std::size_t most)> source;
  std::uint64_t size = 0;
  /// Receives the body of an answer below 300, piece by piece; false refuses the rest of it.
  std::function<bool(const WebAnswer& head, std::string_view piece)> take;
  double stall_seconds = 10;  // without a byte: HF_HUB_DOWNLOAD_TIMEOUT
};

/// Does not throw for network errors: see WebAnswer::failure. At most five redirects, to http(s) alone and never from
/// https to http. Safe to call from many threads; a thread keeps its connections. Proxies and certificates are those of
/// the environment (https_proxy, no_proxy, CURL_CA_BUNDLE, SSL_CERT_FILE, REQUESTS_CA_BUNDLE).
WebAnswer send_once(const WebRequest& request);

/// "https://host[:port]" of a URL, in lower case.
std::string origin_of(std::string_view url);
/// Percent-encoded, but for letters, digits, "-_.~" and those of `keep`.
std::string url_encoded(std::string_view text, std::string_view keep = {});

}  // namespace dml
