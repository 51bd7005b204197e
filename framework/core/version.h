// The version and the build of the program.
#pragma once

namespace dml {

/// "0.1.0"
const char* version();
/// Compiler and build type.
const char* build_description();

}  // namespace dml
