// A value of a Parquet column as JSON text, by its physical and logical type.
#pragma once

#include <string>

#include "data/parquet/encodings.h"
#include "data/parquet/schema.h"

namespace dml::parquet {

void put_value(const Value& value, const Node& node, std::string& out);

}  // namespace dml::parquet
