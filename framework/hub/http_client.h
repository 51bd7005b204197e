// HTTP requests through libcurl, which only http_client.cpp includes. Redirects are followed here, so that the token is
// sent to its own host only; large bodies are streamed.
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
  int status = 0;  // 0: no response
  WebHeaders headers;
  std::string body;               // at most 32 MiB; "" if `take` received it, unless it is an error
  std::string url;                // URL of the response, after all redirects
  WebHeaders first;               // headers of the first response, before any redirect to another host
  std::string failure;            // "" if the response is complete, else libcurl's message
  bool refused = false;           // `take` returned false
  bool redirect_refused = false;  // a redirect was not followed; `failure` says why
  bool writes = false;            // of a request other than GET

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
  std::string token;                 // sent to `token_origin` only, whatever the redirects
  std::string token_origin;          // "https://host[:port]"
  std::string body;
  /// Replaces `body`: `size` bytes, read in pieces starting at `offset`; 0 bytes read is an error.
  std::function<std::size_t(std::uint64_t offset, char* to, std::size_t most)> source;
  std::uint64_t size = 0;
  /// Receives the body of a response below 300 in pieces; false rejects the rest of it.
  std::function<bool(const WebAnswer& head, std::string_view piece)> take;
  double stall_seconds = 10;  // timeout without any byte received: HF_HUB_DOWNLOAD_TIMEOUT
};

/// Sends one request. Network errors are returned in WebAnswer::failure, not thrown. Follows at most five redirects, to
/// http(s) only and never from https to http. Thread-safe; each thread reuses its connections. Proxies and certificates
/// are those of the environment (https_proxy, no_proxy, CURL_CA_BUNDLE, SSL_CERT_FILE, REQUESTS_CA_BUNDLE).
WebAnswer send_once(const WebRequest& request);

/// "https://host[:port]" of a URL, in lower case.
std::string origin_of(std::string_view url);
/// Percent-encodes all but letters, digits, "-_.~" and the characters in `keep`.
std::string url_encoded(std::string_view text, std::string_view keep = {});

}  // namespace dml
