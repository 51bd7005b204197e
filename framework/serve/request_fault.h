// What the library of http.cpp lets through and we do not: contradicting lengths, unknown methods, sizes.
#pragma once

#include <string>
#include <utility>

#include "serve/http.h"

namespace dml {

/// Why a request is refused by its headers, as a status and a sentence; (0, "") where it is not.
std::pair<int, std::string> request_fault(const HttpRequest& request, const std::string& version,
                                          std::size_t body_bytes);

}  // namespace dml
