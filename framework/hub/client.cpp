#include "hub/client.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <thread>

#include "core/environment.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/shown.h"
#include "core/text.h"

namespace dml {
namespace {

constexpr double kFirstPause = 1, kLongestPause = 8, kLongestRetryAfter = 300;  // seconds
constexpr std::size_t kLongestReason = 300;                                     // bytes
constexpr const char* kEndpoint = "https://huggingface.co";

std::string stripped(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c); });
  return text;
}

std::string token_from_environment() {
  if (hub_variable_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return {};
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (std::string token = stripped(environment(name)); !token.empty()) return token;
  std::string path = environment("HF_TOKEN_PATH");
  if (const std::string home = hub_home(); path.empty() && !home.empty()) path = home + "/token";
  return file_exists(path) ? stripped(read_file(path, 4096)) : "";
}

bool is_worth_another_try(const WebAnswer& answer) {
  if (answer.refused || answer.redirect_refused) return false;
  if (!answer.failure.empty() && answer.status < 400) return true;
  constexpr int kPassing[] = {408, 429, 500, 502, 503, 504};
  return std::ranges::count(kPassing, answer.status) > 0;
}

// The server's message, from its header or JSON body.
std::string reason_of(const WebAnswer& answer) {
  if (const std::string said = answer.header("x-error-message"); !said.empty()) return shown(said, kLongestReason);
  try {
    const Json body = parse_json(answer.body, "answer", {.bytes = 65536});
    if (body.is_object() && body.contains("error") && body["error"].is_string())
      return shown(body["error"].get_ref<const std::string&>(), kLongestReason);
  } catch (const UserError&) {
  }
  return {};
}

// The parameter t of a RateLimit header: `"api";r=0;t=55`. "" where it has none.
std::string seconds_to_reset(std::string_view header) {
  while (!header.empty()) {
    const std::size_t end = std::min(header.find_first_of(";,"), header.size());
    const std::string_view parameter = trim(header.substr(0, end));
    if (parameter.starts_with("t=")) return std::string(parameter.substr(2));
    header.remove_prefix(std::min(end + 1, header.size()));
  }
  return {};
}

}  // namespace

HubOptions HubOptions::from_environment() {
  HubOptions out;
  out.endpoint = environment("HF_ENDPOINT");
  if (out.endpoint.empty()) out.endpoint = kEndpoint;
  while (out.endpoint.ends_with('/')) out.endpoint.pop_back();
  if (!out.endpoint.starts_with("https://") && !out.endpoint.starts_with("http://"))
    throw UserError("HF_ENDPOINT: '{}' is not an http or https address", out.endpoint);
  out.token = token_from_environment();
  out.offline = hub_offline();
  if (const std::string seconds = environment("HF_HUB_DOWNLOAD_TIMEOUT"); !seconds.empty())
    out.stall_seconds = std::clamp(std::atof(seconds.c_str()), 1.0, 3600.0);
  return out;
}

HubClient::HubClient(HubOptions options) : options_(std::move(options)) {}

std::string HubClient::api(HubKind kind, const std::string& id) const {
  return fmt::format("{}/api/{}s/{}", options_.endpoint, name_of(kind), id);
}

std::string HubClient::resolve(HubKind kind, const std::string& id, const std::string& revision,
                               const std::string& path) const {
  return fmt::format("{}/{}{}/resolve/{}/{}", options_.endpoint, kind == HubKind::dataset ? "datasets/" : "", id,
                     url_encoded(revision), url_encoded(path, "/"));
}

double retry_after(const WebAnswer& answer) {
  std::string said = answer.header("retry-after");
  if (said.empty()) said = seconds_to_reset(answer.header("ratelimit"));
  if (said.empty() || !std::isdigit(static_cast<unsigned char>(said[0]))) return -1;
  return std::min(std::atof(said.c_str()), kLongestRetryAfter);
}

WebAnswer HubClient::send(WebRequest request, const std::function<bool(WebRequest&)>& before_try) const {
  request.token = options_.token;
  request.token_origin = origin_of(options_.endpoint);
  request.stall_seconds = options_.stall_seconds;
  double usual = kFirstPause;
  for (int tried = 1;; ++tried) {
    WebAnswer answer = send_once(request);
    if (!is_worth_another_try(answer)) return answer;
    if (before_try && before_try(request)) tried = 1, usual = kFirstPause;
    if (tried >= options_.tries) return answer;
    const double asked = retry_after(answer), seconds = asked >= 0 ? asked : usual;
    log_debug("{}: {}; trying again in {:.1f} s", origin_of(answer.url),
              answer.failure.empty() ? fmt::format("status {}", answer.status) : answer.failure, seconds);
    if (options_.pause) options_.pause(seconds);
    else std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    usual = std::min(2 * usual, kLongestPause);
  }
}

void HubClient::require_success(const WebAnswer& answer, const std::string& what) const {
  if (answer.failure.empty() && answer.status >= 200 && answer.status < 300) return;
  const std::string code = answer.header("x-error-code"), reason = reason_of(answer), site = options_.endpoint;
  const std::string said = reason.empty() ? "" : fmt::format(" ({})", reason);
  if (!answer.failure.empty() && answer.status < 400)
    throw IoError(fmt::format("{}: {} cannot be reached, or the connection was lost: {}", what, site, answer.failure));
  const bool no_repository = code == "RepoNotFound" || (answer.status == 404 && code.empty());
  const char* token =
      options_.token.empty() ? "no token is set (HF_TOKEN, or hf auth login)" : "the token may not see it";
  if (answer.writes && answer.status == 403)
    throw UserError("{}: access is refused{}: the token may not write there", what, said);
  if (code == "GatedRepo" || answer.status == 403)
    throw UserError("{}: access is refused{}: accept its terms on {} with the account of the token; {}", what, said,
                    site, token);
  if (code == "RevisionNotFound") throw UserError("{}: there is no such branch, tag or commit{}", what, said);
  if (code == "EntryNotFound") throw UserError("{}: there is no such file at this revision{}", what, said);
  if (answer.status == 401 || no_repository)
    throw UserError("{}: not found on {}, or private or gated: check the name; {}{}", what, site, token, said);
  if (answer.status == 429)
    throw IoError(fmt::format("{}: {} limits the number of requests (429){}; try later{}", what, site, said,
                              options_.token.empty() ? ", or set HF_TOKEN: accounts have a higher limit" : ""));
  throw IoError(fmt::format("{}: {} answered with status {}{}", what, site, answer.status, said));
}

Json HubClient::json(WebRequest request, const std::string& what, WebAnswer* out) const {
  WebAnswer answer = send(std::move(request));
  require_success(answer, what);
  if (answer.header("content-type").starts_with("text/html"))
    throw IoError(fmt::format("{}: {} answers with a web page; a login page of the network, or a wrong HF_ENDPOINT?",
                              what, options_.endpoint));
  Json value = parse_json(answer.body.empty() ? "{}" : answer.body, options_.endpoint);
  if (out) *out = std::move(answer);
  return value;
}

}  // namespace dml
