// What the library of http.cpp does not do for requests: targets in absolute form; checks of contradicting lengths,
// unknown methods, sizes.
#pragma once

#include <string>
#include <utility>

#include "serve/http.h"

namespace dml {

/// Turns a target in absolute form, http://HOST/PATH, into the path; its host replaces the Host header (RFC
/// 9112, 3.2.2).
void use_origin_form(HttpRequest& request);
/// Status and message of a rejection by the headers; (0, "") if the request is accepted.
std::pair<int, std::string> request_fault(const HttpRequest& request, const std::string& version,
                                          std::size_t body_bytes);

}  // namespace dml
