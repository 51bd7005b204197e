// The server: its paths, API keys, and a handler for each path. Requests are parsed on a few threads and answered on
// the engine's thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/endpoints.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/served_model.h"
#include "serve/service.h"

namespace dml {

struct ServerOptions {
  HttpOptions http;
  std::vector<std::string> keys;     // accepted API keys; empty: no key is required
  std::vector<std::string> origins;  // of web pages that may send requests; "*": all; empty: only the chat page
  std::size_t queue = 64;            // requests that may wait for the engine
};

class ApiServer {
 public:
  ApiServer(const ServedModels& models, const ServerOptions& options);
  ~ApiServer();

  std::uint16_t port() const { return http_->port(); }
  /// Rejects new requests, and waits at most this long for those in progress.
  void finish(std::chrono::seconds most);

 private:
  using Reply = std::shared_ptr<HttpReply>;
  struct Route;
  static const std::vector<Route>& routes();

  void handle(HttpRequest request, Reply reply);
  void answer_or_refuse(const HttpRequest& request, const Reply& reply);
  void answer(const HttpRequest& request, const Reply& reply);
  void answer_options(const HttpRequest& request, const Reply& reply);
  HttpResponse page(const std::string&) const;
  HttpResponse health(const std::string&) const;
  HttpResponse metrics(const std::string&) const;
  HttpResponse models(const std::string& name) const;
  void check_sender(const HttpRequest& request, bool is_public) const;
  void add_origin(const HttpRequest& request, HttpReply& reply) const;
  void submit(std::shared_ptr<Work> work);
  void read_requests(const std::stop_token& stop, bool constrained);

  Json tokenize(const Json& body) const;
  Json detokenize(const Json& body) const;
  Json apply_template(const Json& body) const;
  Json model(std::size_t i) const;
  Json model_list() const;

  const ServedModels& models_;
  ServerOptions options_;
  Metrics metrics_;
  Endpoints endpoints_;
  Service service_;
  std::int64_t created_;
  std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::deque<std::pair<HttpRequest, Reply>> requests_, constrained_;  // the latter may take a second to compile
  bool closing_ = false;
  std::vector<std::jthread> readers_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace dml
