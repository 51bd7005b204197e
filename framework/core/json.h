// Bounded JSON: untrusted input is parsed with limits on size, depth and object width. Duplicate keys are errors, and
// every error names the source and the position.
//
// Json keeps the order of keys: templates print it, and files that dml rewrites keep theirs. Its look-up is linear, so
// files with very wide objects (tokenizer vocabularies, safetensors headers) are read as WideJson, a tree map.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace dml {

using Json = nlohmann::ordered_json;
using WideJson = nlohmann::json;

struct JsonLimits {
  std::size_t bytes = std::size_t{64} << 20;
  int depth = 64;
  std::size_t object_keys = 4096;   // per object
  std::size_t elements = 1u << 24;  // in all
};

/// Errors begin with `source`: "FILE" or "FILE:LINE". A byte order mark is skipped. Throws UserError.
Json parse_json(std::string_view text, std::string_view source, const JsonLimits& limits = {});

/// The same for texts that a model wrote: a key may be repeated; its last value counts, as in JavaScript and Python.
Json parse_written_json(std::string_view text, std::string_view source, const JsonLimits& limits = {});

/// Reads and parses a file of at most limits.bytes.
Json read_json(const std::string& path, const JsonLimits& limits = {});
WideJson read_wide_json(const std::string& path, const JsonLimits& limits = {});

/// Compact JSON text; bytes that are not UTF-8 become U+FFFD.
std::string dump(const Json& value);
/// A string as it is, any other value as JSON text.
std::string text_or_json(const Json& value);

/// A member of an object, with its type checked; `fallback` if the key is absent or null. Throws UserError "SOURCE:
/// 'KEY' must be …, is …".
std::int64_t json_integer(const Json& object, const char* key, std::int64_t fallback, std::string_view source);
double json_number(const Json& object, const char* key, double fallback, std::string_view source);
bool json_bool(const Json& object, const char* key, bool fallback, std::string_view source);
std::string json_string(const Json& object, const char* key, std::string_view fallback, std::string_view source);

}  // namespace dml
