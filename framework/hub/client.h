// The Hub's HTTP interface: endpoint, token, retries, and the meaning of errors (huggingface_hub: constants.py,
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
  int tries = 5;  // attempts without progress
  double stall_seconds = 10;
  std::function<void(double seconds)> pause{};  // between tries; unset: sleeps

  /// HF_ENDPOINT, HF_TOKEN or the token file, HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT.
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

  /// With the token, and tried again after failures of the network, 408, 429 and 5xx: after as many seconds as
  /// Retry-After says, or 1, 2, 4, then 8. `before_try` may change the request before a further try, and says whether
  /// the last one got further, which starts the count anew.
  WebAnswer send(WebRequest request, const std::function<bool(WebRequest&)>& before_try = {}) const;
  /// The JSON of a successful answer; UserError (401, 403, 404 …: what it means for `what`) or IoError otherwise.
  Json json(WebRequest request, const std::string& what, WebAnswer* answer = nullptr) const;
  /// Throws as json() does unless the answer is a success.
  void require_success(const WebAnswer& answer, const std::string& what) const;

 private:
  HubOptions options_;
};

/// Seconds to wait by the answer's Retry-After or rate limit; -1: not given.
double retry_after(const WebAnswer& answer);

}  // namespace dml
