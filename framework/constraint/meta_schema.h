// The meta-schemas of JSON Schema, drafts 4 to 2020-12, which a schema may refer to with $ref.
#pragma once

#include <optional>
#include <string_view>

#include "core/json.h"

namespace dml {

/// The meta-schema of JSON Schema at this URI without fragment, drafts 4 to 2020-12; nothing for other URIs. Written
/// from the keywords of each draft as one document, with the definitions that others refer to (`nonNegativeInteger` …).
std::optional<Json> meta_schema(std::string_view uri);

}  // namespace dml
