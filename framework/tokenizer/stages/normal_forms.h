// Unicode normal forms with alignment.
#pragma once

#include "tokenizer/text/aligned_text.h"

namespace dml {

struct NormalForm {
  bool compose = true, compatible = false;  // NFC; {false,false} NFD; {true,true} NFKC; {false,true} NFKD
};

/// The text is split before every character that cannot combine with the preceding one. Each part is decomposed, its
/// marks are ordered by a stable sort in O(n log n), and it is composed.
void apply_normal_form(AlignedText& text, NormalForm form);

}  // namespace dml
