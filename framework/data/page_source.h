// The page of page.h around its data: markup and style before it, the script after it.
#pragma once

namespace dml {

extern const char* const kPageBeforeData;
extern const char* const kPageAfterData;

}  // namespace dml
