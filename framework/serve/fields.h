// Reads the fields of a request one by one, checking types and ranges. Errors have the form of OpenAI's error object.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "serve/http.h"

namespace dml {

/// An error response: {"error": {"message", "type", "param", "code"}}.
struct ApiError {
  int status = 400;
  std::string message, param = {}, code = {};

  static ApiError invalid(const std::string& param, const std::string& message) { return {400, message, param, {}}; }
  Json json() const;
  HttpResponse response() const;
};

/// The error response for work that failed.
ApiError error_of(const std::exception& why);
ApiError closing_error();

class Fields {
 public:
  /// `path`: prefix of field names in errors ("stream_options."). `object` outlives this object. ApiError unless
  /// `object` is a JSON object.
  explicit Fields(const Json& object, std::string path = "");

  /// The field's value; null if it is absent or null.
  const Json* find(const std::string& name);
  bool has(const std::string& name) { return find(name) != nullptr; }
  double number(const std::string& name, double fallback, double low, double high);
  std::int64_t integer(const std::string& name, std::int64_t fallback, std::int64_t low, std::int64_t high);
  bool flag(const std::string& name, bool fallback);
  std::optional<std::string> text(const std::string& name);
  /// A string, or a list of strings; none may be empty.
  std::vector<std::string> texts(const std::string& name, std::size_t most);
  std::string path(const std::string& name) const { return path_ + name; }
  /// ApiError for a field that was not read, is not null and is not in `ignored`.
  void refuse_others(const std::vector<std::string>& ignored);
  [[noreturn]] void wrong(const std::string& name, const std::string& why) const;

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string> known_;
};

}  // namespace dml
