// Client of the Hub's HTTP API: endpoint, token, retries, and the meaning of errors (huggingface_hub: constants.py,
// utils/_http.py).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/json.h"
#include "hub/cache.h"
#include "hub/http_client.h"

namespace dml {

struct HubOptions {
  std::string endpoint;  // without a '/' at the end
  std::string token;     // "" for none
  bool offline = false;
  int tries = 5;  // maximum number of attempts without progress
  double stall_seconds = 10;
  std::function<void(double seconds)> pause{};  // waits between attempts; unset: sleeps

  /// Reads HF_ENDPOINT, HF_TOKEN or the token file, HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT.
  static HubOptions from_environment();
};

class HubClient {
 public:
  explicit HubClient(HubOptions options);
  const HubOptions& options() const { return options_; }

  /// "ENDPOINT/api/models/ORG/NAME"
  std::string api(HubKind kind, const std::string& id) const;
  /// "ENDPOINT/[datasets/]ORG/NAME/resolve/REVISION/PATH"
  std::string resolve(HubKind kind, const std::string& id, const std::string& revision, const std::string& path) const;

  /// Sends a request with the token. Retries after network errors, 408, 429 and 5xx, waiting as long as Retry-After
  /// says, or 1, 2, 4, then 8 seconds. `before_try` may modify the request before a retry, and returns whether the last
  /// attempt made progress, which resets the count.
  WebAnswer send(WebRequest request, const std::function<bool(WebRequest&)>& before_try = {}) const;
  /// The JSON of a successful response; otherwise a UserError (401, 403, 404 …, explained for `what`) or IoError.
  Json json(WebRequest request, const std::string& what, WebAnswer* answer = nullptr) const;
  /// Throws like json() unless the response is a success.
  void require_success(const WebAnswer& answer, const std::string& what) const;

 private:
  HubOptions options_;
};

/// Seconds to wait according to Retry-After or the rate limit; −1 if not given.
double retry_after(const WebAnswer& answer);

}  // namespace dml
