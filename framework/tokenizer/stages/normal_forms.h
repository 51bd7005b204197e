// Unicode normal forms with alignment.
#pragma once

#include "tokenizer/text/aligned_text.h"

namespace dml {

struct NormalForm {
  bool compose = true, compatible = false;  // NFC; {false,false} NFD; {true,true} NFKC; {false,true} NFKD
};

/// Text is cut before every character that cannot join what stands before it; each part is decomposed, its marks
/// are ordered (stable sort, so that a million marks cost no more than n log n) and composed again.
void apply_normal_form(AlignedText& text, NormalForm form);

}  // namespace dml
