// Checks of requests that the library of http.cpp does not make: contradicting lengths, unknown methods, sizes.
#pragma once

#include <string>
#include <utility>

#include "serve/http.h"

namespace dml {

/// Status and message of a rejection by the headers; (0, "") if the request is accepted.
std::pair<int, std::string> request_fault(const HttpRequest& request, const std::string& version,
                                          std::size_t body_bytes);

}  // namespace dml
