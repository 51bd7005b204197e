// Origins of web pages, as browsers write them in the header Origin.
#pragma once

#include <string>

namespace dml {

/// The spelling of browsers: "https://example.com:8000", in lower case, without the port that the scheme has anyway;
/// "*" and "null" stay. "" if the text is not an origin.
std::string browser_origin(const std::string& text);

}  // namespace dml
