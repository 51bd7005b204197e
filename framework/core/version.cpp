#include "core/version.h"

namespace dml {

const char* version() { return DML_VERSION; }
const char* build_description() { return "gcc " __VERSION__ ", " DML_BUILD_TYPE; }

}  // namespace dml
