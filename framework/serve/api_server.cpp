#include "serve/api_server.h"

#include <algorithm>
#include <ctime>

#include "core/error.h"
#include "core/shown.h"
#include "core/text.h"
#include "core/utf8.h"
#include "serve/chat_page.h"

namespace dml {
namespace {

constexpr JsonLimits kBody{.bytes = std::size_t{64} << 20, .depth = 64, .object_keys = 65536};
constexpr std::size_t kReaders = 3;  // one of them leaves constraints to the others

// Compares in time that depends on the lengths alone, so that the time tells nothing about the key.
bool equal(const std::string& a, const std::string& b) {
  unsigned char differs = a.size() != b.size();
  for (std::size_t i = 0; i < a.size(); ++i)
    differs |= static_cast<unsigned char>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  return differs == 0;
}

// "Application/JSON; charset=utf-8" → "application/json".
std::string media_type(const std::string& header) {
  return ascii_lower(header.substr(0, header.find_first_of("; \t")));
}

// "example.com:8080" → "example.com"; "[::1]:80" → "[::1]".
std::string host_of(const std::string& header) {
  const auto bracket = header.rfind(']'), colon = header.rfind(':');
  return colon == header.npos || (bracket != header.npos && colon < bracket) ? header : header.substr(0, colon);
}

// Whether a body has fields that hold a constraint, or their names elsewhere.
bool may_constrain(const std::string& body) {
  static constexpr std::string_view kFields[] = {"\"response_format\"", "\"guided_", "\"json_schema\"",
                                                 "\"grammar\"",         "\"regex\"", "\"tools\""};
  return std::ranges::any_of(kFields, [&](auto field) { return body.find(field) != body.npos; });
}

// A reply whose status is counted.
class CountedReply : public HttpReply {
 public:
  CountedReply(std::shared_ptr<HttpReply> reply, Metrics& metrics, std::string path)
      : reply_(std::move(reply)), metrics_(metrics), path_(std::move(path)) {}
  void add_header(const std::string& name, const std::string& value) override { reply_->add_header(name, value); }
  void send(HttpResponse response) override {
    metrics_.answered(path_, response.status);
    reply_->send(std::move(response));
  }
  void begin(HttpResponse head) override {
    metrics_.answered(path_, head.status);
    reply_->begin(std::move(head));
  }
  void write(std::string_view piece) override { reply_->write(piece); }
  void finish() override { reply_->finish(); }
  bool gone() const override { return reply_->gone(); }

 private:
  std::shared_ptr<HttpReply> reply_;
  Metrics& metrics_;
  std::string path_;
};

}  // namespace

struct ApiServer::Route {
  std::string method, path;
  bool is_public = false;  // answered without a key
  // How the answer is made, at once or, with neither, by the engine. name: NAME of /v1/models/NAME, else "".
  HttpResponse (ApiServer::*document)(const std::string& name) const = nullptr;
  Json (ApiServer::*compute)(const Json& body) const = nullptr;
};

const std::vector<ApiServer::Route>& ApiServer::routes() {
  using S = ApiServer;
  static const std::vector<Route> table = [] {
    std::vector<Route> all{{.method = "GET", .path = "/", .is_public = true, .document = &S::page},
                           {.method = "GET", .path = "/health", .is_public = true, .document = &S::health},
                           {.method = "GET", .path = "/metrics", .document = &S::metrics},
                           {.method = "GET", .path = "/v1/models", .document = &S::models}};
    for (const std::string& path : Endpoints::paths()) all.push_back({.method = "POST", .path = path});
    all.push_back({.method = "POST", .path = "/tokenize", .compute = &S::tokenize});
    all.push_back({.method = "POST", .path = "/detokenize", .compute = &S::detokenize});
    all.push_back({.method = "POST", .path = "/apply-template", .compute = &S::apply_template});
    return all;
  }();
  return table;
}

ApiServer::ApiServer(const ServedModels& models, const ServerOptions& options)
    : models_(models),
      options_(options),
      metrics_(models.list()[0].name),
      endpoints_(models, metrics_),
      service_(models.models(), models.engine_options(), options.queue, metrics_, [this] { endpoints_.rest(); }),
      created_(std::time(nullptr)) {
  http_ = std::make_unique<HttpServer>(
      options.http, [this](HttpRequest request, Reply reply) { handle(std::move(request), std::move(reply)); },
      [](int status, const std::string& why) {
        return ApiError{status, why}.response();
      });
  for (std::size_t i = 0; i < kReaders; ++i)
    readers_.emplace_back([this, i](const std::stop_token& stop) { read_requests(stop, i > 0); });
}

ApiServer::~ApiServer() {
  finish(std::chrono::seconds(0));
  for (std::jthread& reader : readers_) reader.request_stop();
  readers_.clear();
  http_.reset();
}

void ApiServer::finish(std::chrono::seconds most) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closing_, true)) return;
  }
  http_->stop_listening();
  service_.finish(most);
}

// Runs on the thread of the sockets, so it must not block. Requests without a body are answered at once; a constraint
// that takes long to compile stops neither them nor requests without constraints.
void ApiServer::handle(HttpRequest request, Reply reply) {
  const bool known = std::ranges::any_of(routes(), [&](const Route& r) { return r.path == request.path; });
  reply = std::make_shared<CountedReply>(std::move(reply), metrics_, known ? request.path : "other");
  if (request.method != "POST") return answer_or_refuse(request, reply);
  const bool constrained = may_constrain(request.body);
  {
    const std::lock_guard lock(mutex_);
    (constrained ? constrained_ : requests_).emplace_back(std::move(request), std::move(reply));
  }
  arrived_.notify_all();
}

void ApiServer::read_requests(const std::stop_token& stop, bool constrained) {
  while (true) {
    std::pair<HttpRequest, Reply> next;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, stop, [&] { return !requests_.empty() || (constrained && !constrained_.empty()); });
      auto& from = constrained && !constrained_.empty() ? constrained_ : requests_;
      if (from.empty()) return;
      next = std::move(from.front());
      from.pop_front();
    }
    answer_or_refuse(next.first, next.second);
  }
}

void ApiServer::answer_or_refuse(const HttpRequest& request, const Reply& reply) {
  try {
    add_origin(request, *reply);
    answer(request, reply);
  } catch (const ApiError& e) {
    reply->send(e.response());
  } catch (const UserError& e) {
    reply->send(ApiError{400, e.what()}.response());
  } catch (const std::bad_alloc&) {
    reply->send(ApiError{503, "the server is out of memory"}.response());
  } catch (const std::exception& e) {
    reply->send(ApiError{500, e.what()}.response());
  }
}

// Refuses pages of other sites where the server on this machine needs no key: their requests carry an Origin, or, with
// DNS rebinding, a Host name that resolves to this machine.
void ApiServer::check_sender(const HttpRequest& request, bool is_public) const {
  if (options_.keys.empty()) {
    const std::string host = host_of(request.header("host"));
    const std::string name = ascii_lower(host);
    const bool local = name.empty() || name == "localhost" || name == "[::1]" || name.ends_with(".localhost") ||
                       name.find_first_not_of("0123456789.") == name.npos || name.find('.') == name.npos;
    if (!local) throw ApiError{403, fmt::format("'{}' is not a name of this server", shown(host, 80))};
  }
  if (is_public || options_.keys.empty()) return;
  const std::string given = request.header("authorization");
  std::string key = request.header("x-api-key");
  if (given.size() > 7 && ascii_lower(given.substr(0, 7)) == "bearer ") key = given.substr(7);
  bool known = false;
  for (const std::string& k : options_.keys) known |= equal(key, k);
  if (!known) throw ApiError{401, "a valid API key is needed: Authorization: Bearer KEY", "", "invalid_api_key"};
}

void ApiServer::add_origin(const HttpRequest& request, HttpReply& reply) const {
  const std::string origin = request.header("origin");
  const auto& allowed = options_.origins;
  if (origin.empty() || allowed.empty()) return;
  if (std::ranges::find(allowed, "*") != allowed.end()) {
    reply.add_header("Access-Control-Allow-Origin", "*");
  } else if (std::ranges::find(allowed, origin) != allowed.end()) {
    reply.add_header("Access-Control-Allow-Origin", origin);
    reply.add_header("Vary", "Origin");
  }
}

void ApiServer::answer(const HttpRequest& request, const Reply& reply) {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  if (method == "OPTIONS") return answer_options(request, reply);
  std::string path = request.path;
  const std::string model_name = path.starts_with("/v1/models/") ? path.substr(11) : "";
  if (!model_name.empty()) path = "/v1/models";
  const Route* route = nullptr;
  bool known = false;
  for (const Route& r : routes())
    if (r.path == path) {
      known = true;
      if (r.method == method) route = &r;
    }
  check_sender(request, route && route->is_public);
  if (!known) throw ApiError{404, fmt::format("there is no {}", shown(path, 100))};
  if (!route) {
    HttpResponse r = ApiError{405, fmt::format("{} does not answer {}", path, method)}.response();
    for (const Route& each : routes())
      if (each.path == path) r.headers.emplace_back("Allow", each.method);
    return reply->send(std::move(r));
  }
  if (route->document) return reply->send((this->*route->document)(model_name));
  if (media_type(request.header("content-type")) != "application/json")
    throw ApiError{415, "the body is JSON: Content-Type: application/json"};
  const Json body = parse_json(request.body, "the body", kBody);
  if (route->compute) return reply->send({.status = 200, .body = dump((this->*route->compute)(body))});
  submit(endpoints_.work(path, body, reply));
}

void ApiServer::answer_options(const HttpRequest& request, const Reply& reply) {
  HttpResponse r{.status = 204};
  const std::string wanted = request.header("access-control-request-headers");  // clients add headers of their own
  if (!options_.origins.empty())
    r.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                 {"Access-Control-Allow-Headers", wanted.empty() ? "Authorization, Content-Type, X-Api-Key" : wanted},
                 {"Access-Control-Max-Age", "86400"}};
  reply->send(std::move(r));
}

HttpResponse ApiServer::page(const std::string&) const {
  return {.status = 200,
          .body = std::string(chat_page()),
          .type = "text/html; charset=utf-8",
          .headers = {{"Cache-Control", "no-cache"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
                       "'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"}}};
}

HttpResponse ApiServer::health(const std::string&) const { return {.status = 200, .body = dump({{"status", "ok"}})}; }

HttpResponse ApiServer::metrics(const std::string&) const {
  return {.status = 200, .body = metrics_.text(), .type = "text/plain; version=0.0.4; charset=utf-8"};
}

HttpResponse ApiServer::models(const std::string& name) const {
  if (name.empty()) return {.status = 200, .body = dump(model_list())};
  const auto i = models_.find(name);
  if (!i) throw ApiError{404, "the model '" + shown(name, 100) + "' does not exist", "model", "model_not_found"};
  return {.status = 200, .body = dump(model(*i))};
}

void ApiServer::submit(std::shared_ptr<Work> work) {
  switch (service_.submit(std::move(work))) {
    case Service::Admission::taken:
      return;
    case Service::Admission::full:
      throw ApiError{429, "too many requests wait already; try again"};
    case Service::Admission::closing:
      throw closing_error();
  }
}

// The request fields of llama.cpp's server ("content") and of vLLM ("prompt" or "messages").
Json ApiServer::tokenize(const Json& body) const {
  Fields f(body);
  std::string name;
  endpoints_.reader().model_of(f, name);
  const auto content = f.text("content"), prompt = f.text("prompt");
  const bool chat = f.has("messages");
  if (content.has_value() + prompt.has_value() + chat != 1)
    f.wrong("content", "must be given, or 'prompt' or 'messages', but only one of them");
  const bool add = f.flag(content ? "add_special" : "add_special_tokens", !content.has_value());
  const bool parse = f.flag("parse_special", true), pieces = f.flag("with_pieces", false),
             strings = f.flag("return_token_strs", false);
  const Tokenizer& t = models_.format().tokenizer();
  const std::vector<Token> ids =
      chat ? endpoints_.reader().chat_tokens(f)
           : t.encode(content ? *content : *prompt, {.add_special = add, .parse_special = parse}).ids;
  f.refuse_others({});
  Json tokens = Json::array(), shown = Json::array();
  for (Token id : ids) {
    const std::string bytes = t.is_special(id) ? t.piece(id) : t.text_bytes(id, false);
    Json piece = bytes;
    if (find_invalid_utf8(bytes) != std::string::npos) {
      piece = Json::array();
      for (unsigned char b : bytes) piece.push_back(b);
    }
    tokens.push_back(pieces ? Json{{"id", id}, {"piece", piece}} : Json(id));
    shown.push_back(bytes);
  }
  Json out = {{"tokens", tokens}, {"count", ids.size()}, {"max_model_len", models_.engine_options().context}};
  if (strings) out["token_strs"] = shown;
  return out;
}

Json ApiServer::detokenize(const Json& body) const {
  Fields f(body);
  std::string name;
  endpoints_.reader().model_of(f, name);
  const Json* tokens = f.find("tokens");
  if (!tokens || !tokens->is_array()) f.wrong("tokens", "must be a list of token ids");
  f.refuse_others({});
  std::vector<Token> ids;
  for (const Json& id : *tokens) {
    if (!id.is_number_integer() || id < 0 || id >= models_.format().tokenizer().size())
      f.wrong("tokens", "holds " + shown(dump(id), 40) + ", which is not a token id");
    ids.push_back(id.get<Token>());
  }
  const std::string text = models_.format().tokenizer().decode(ids);
  return {{"content", text}, {"prompt", text}};
}

Json ApiServer::apply_template(const Json& body) const {
  return {{"prompt", endpoints_.reader().apply_template(body)}};
}

Json ApiServer::model(std::size_t i) const {
  const ServedModel& m = models_.list()[i];
  return {{"id", m.name},
          {"object", "model"},
          {"created", created_},
          {"owned_by", "dml"},
          {"root", m.name},
          {"parent", m.parent.empty() ? Json() : Json(m.parent)},
          {"max_model_len", models_.engine_options().context},
          {"chat", !models_.format().chat_template().empty()}};
}

Json ApiServer::model_list() const {
  Json data = Json::array();
  for (std::size_t i = 0; i < models_.list().size(); ++i) data.push_back(model(i));
  return {{"object", "list"}, {"data", data}};
}

}  // namespace dml
