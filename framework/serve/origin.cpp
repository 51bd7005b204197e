#include "serve/origin.h"

#include <utility>

#include "core/text.h"

namespace dml {

std::string browser_origin(const std::string& text) {
  if (text == "*" || text == "null") return text;
  std::string origin = ascii_lower(text.ends_with('/') ? text.substr(0, text.size() - 1) : text);
  const std::size_t host = origin.find("://");
  if (host == origin.npos || host == 0 || host + 3 == origin.size() ||
      origin.find_first_of("/?# ", host + 3) != origin.npos)
    return "";
  using Default = std::pair<std::string, std::string>;
  for (const auto& [scheme, port] : {Default{"http://", ":80"}, Default{"https://", ":443"}})
    if (origin.starts_with(scheme) && origin.ends_with(port)) origin.resize(origin.size() - port.size());
  return origin;
}

}  // namespace dml
