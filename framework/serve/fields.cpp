#include "serve/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/closest.h"
#include "core/error.h"
#include "core/shown.h"

namespace dml {

Json ApiError::json() const {
  const char* type = status == 401 || status == 403 ? "authentication_error"
                     : status == 404                ? "not_found_error"
                     : status == 429                ? "rate_limit_error"
                     : status == 501                ? "not_supported_error"
                     : status == 503                ? "unavailable_error"
                     : status >= 500                ? "server_error"
                                                    : "invalid_request_error";
  return {{"error",
           {{"message", message},
            {"type", type},
            {"param", param.empty() ? Json() : Json(param)},
            {"code", code.empty() ? Json() : Json(code)}}}};
}

HttpResponse ApiError::response() const {
  HttpResponse r{.status = status, .body = dump(json())};
  if (status == 429 || status == 503) r.headers.emplace_back("Retry-After", "1");
  if (status == 401) r.headers.emplace_back("WWW-Authenticate", "Bearer");
  return r;
}

ApiError error_of(const std::exception& why) {
  const auto* error = dynamic_cast<const Error*>(&why);
  return error && error->code() == ExitCode::user ? ApiError{400, why.what()} : ApiError{500, why.what()};
}

ApiError closing_error() { return {503, "the server is closing"}; }

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (object.is_object()) return;
  const std::string name = path_.empty() ? "" : path_.substr(0, path_.size() - 1);
  throw ApiError::invalid(name, fmt::format("{} must be an object, is {}", name.empty() ? "the body" : "'" + name + "'",
                                            object.type_name()));
}

void Fields::wrong(const std::string& name, const std::string& why) const {
  throw ApiError::invalid(path(name), fmt::format("'{}' {}", path(name), why));
}

const Json* Fields::find(const std::string& name) {
  known_.insert(name);
  auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

double Fields::number(const std::string& name, double fallback, double low, double high) {
  const Json* value = find(name);
  if (!value) return fallback;
  if (!value->is_number()) wrong(name, fmt::format("must be a number, is {}", value->type_name()));
  const double x = value->get<double>();
  if (!(x >= low && x <= high)) wrong(name, fmt::format("is {}, must be from {} to {}", x, low, high));
  return x;
}

std::int64_t Fields::integer(const std::string& name, std::int64_t fallback, std::int64_t low, std::int64_t high) {
  const Json* value = find(name);
  if (!value) return fallback;
  const double x = value->is_number() ? value->get<double>() : NAN;
  if (value->is_number_integer() && !value->is_number_unsigned()) {
    const auto whole = value->get<std::int64_t>();
    if (whole >= low && whole <= high) return whole;
  } else if (value->is_number_unsigned()) {
    const auto whole = value->get<std::uint64_t>();
    if (whole <= static_cast<std::uint64_t>(std::max<std::int64_t>(high, 0)) && static_cast<std::int64_t>(whole) >= low)
      return static_cast<std::int64_t>(whole);
  } else if (x == std::floor(x) && std::abs(x) < 9e15 && x >= static_cast<double>(low) &&
             x <= static_cast<double>(high)) {
    return static_cast<std::int64_t>(x);
  }
  if (!value->is_number()) wrong(name, fmt::format("must be a whole number, is {}", value->type_name()));
  wrong(name, fmt::format("is {}, must be a whole number from {} to {}", dump(*value), low, high));
}

bool Fields::flag(const std::string& name, bool fallback) {
  const Json* value = find(name);
  if (!value) return fallback;
  if (!value->is_boolean()) wrong(name, fmt::format("must be true or false, is {}", value->type_name()));
  return value->get<bool>();
}

std::optional<std::string> Fields::text(const std::string& name) {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_string()) wrong(name, fmt::format("must be a string, is {}", value->type_name()));
  return value->get<std::string>();
}

std::vector<std::string> Fields::texts(const std::string& name, std::size_t most) {
  const Json* value = find(name);
  std::vector<std::string> out;
  if (!value) return out;
  if (!value->is_string() && !value->is_array())
    wrong(name, fmt::format("must be a string or a list of strings, is {}", value->type_name()));
  for (const Json& item : value->is_array() ? *value : Json::array({*value})) {
    if (!item.is_string()) wrong(name, fmt::format("must hold strings, holds a value of type {}", item.type_name()));
    if (item.get_ref<const std::string&>().empty()) wrong(name, "holds an empty string");
    out.push_back(item.get<std::string>());
  }
  if (out.size() > most) wrong(name, fmt::format("has {} entries, may have {}", out.size(), most));
  return out;
}

void Fields::refuse_others(const std::vector<std::string>& ignored) {
  for (auto& [name, value] : object_.items()) {
    if (value.is_null() || known_.contains(name) || std::ranges::find(ignored, name) != ignored.end()) continue;
    const std::string start = shown(name, 80);
    wrong(start, "is not a field of this request" +
                     did_you_mean(start, std::vector<std::string>(known_.begin(), known_.end())));
  }
}

}  // namespace dml
