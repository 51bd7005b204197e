// The fields of a family's config.json, listed once: the same list converts a config to a ModelSpec and back.
#pragma once

#include <functional>

#include "checkpoint/config_reader.h"

namespace dml {

class ConfigFields {
 public:
  explicit ConfigFields(const ConfigReader& from) : from_(&from) {}
  explicit ConfigFields(Json& to) : to_(&to) {}

  /// The source while reading; null while writing.
  const ConfigReader* reader() const { return from_; }
  /// The destination while writing; null while reading.
  Json* writer() const { return to_; }

  /// Sizes, epsilon, activation and rotary embedding of the Llama-like families.
  void common(ModelSpec& spec, const ConfigDefaults& defaults);
  void flag(const char* key, bool& value, bool fallback);
  void integer(const char* key, std::int64_t& value, std::int64_t fallback);
  void number(const char* key, double& value, double fallback);
  /// Like number(), but must be above 0 and at most 1e6.
  void positive(const char* key, double& value, double fallback);
  /// Like number(); 0 is written as null.
  void cap(const char* key, double& value, double fallback);
  /// One key for the biases of q, k, v and o.
  void attention_bias(ModelSpec& spec, const char* key = "attention_bias", bool fallback = false);
  /// Whether q and k are normalized; `over`: the scope of this family's q and k norms.
  void qk_norm(ModelSpec& spec, const char* key, QkNormSpec::Over over);
  /// "use_sliding_window": whether layers have windows. Without it, "layer_types" must not name sliding layers.
  bool windows_in_use(const ModelSpec& spec);
  /// "sliding_window", the same for every layer; `fallback` if it is null or absent, 0 for none.
  void same_windows(ModelSpec& spec, std::int64_t fallback);
  /// "sliding_window" for the layers that "layer_types" calls sliding, or, without that key, those with
  /// is_sliding(layer).
  void windows(ModelSpec& spec, std::int64_t fallback, const std::function<bool(std::int64_t)>& is_sliding);
  /// Writes the fields that follow the family's own: the rotary embedding.
  void finish(const ModelSpec& spec);

 private:
  const ConfigReader* from_ = nullptr;
  Json* to_ = nullptr;
  ConfigDefaults defaults_;
};

}  // namespace dml
