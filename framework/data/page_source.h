// The page of page.h without its data: markup and style before the data, the script after it.
#pragma once

namespace dml {

extern const char* const kPageBeforeData;
extern const char* const kPageBehindData;

}  // namespace dml
