// The options that choose precision where text is generated, shared by several commands.
#pragma once

#include <optional>
#include <string>

#include "cli/options.h"
#include "core/dtype.h"

namespace dml {

struct PrecisionOptions {
  std::optional<DType> kv_cache;
  std::optional<Bf16> bf16;

  /// Adds --kv-cache and --bf16.
  void add_to(Options& options);
  /// Sets the precision of products in this process (float32 unless --bf16 was given), and returns the element type of
  /// the key-value cache.
  DType apply() const;
};

}  // namespace dml
