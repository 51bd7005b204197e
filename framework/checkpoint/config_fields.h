// The fields of a family's config.json, listed once: the same list reads a config into a ModelSpec and writes one from
// it.
#pragma once

#include <functional>

#include "checkpoint/config_reader.h"

namespace dml {

class ConfigFields {
 public:
  explicit ConfigFields(const ConfigReader& from) : from_(&from) {}
  explicit ConfigFields(Json& to) : to_(&to) {}

  /// Null while a config is written.
  const ConfigReader* reader() const { return from_; }
  /// Null while one is read.
  Json* writer() const { return to_; }

  /// Sizes, epsilon, activation and rotary embedding of the Llama-like families.
  void common(ModelSpec& spec, const ConfigDefaults& defaults);
  void flag(const char* key, bool& value, bool fallback);
  void integer(const char* key, std::int64_t& value, std::int64_t fallback);
  void number(const char* key, double& value, double fallback);
  /// As `number`, above 0 and at most 1e6.
  void positive(const char* key, double& value, double fallback);
  /// 0: null in the file.
  void cap(const char* key, double& value, double fallback);
  /// One key for the biases of q, k, v and o.
  void attention_bias(ModelSpec& spec, const char* key = "attention_bias", bool fallback = false);
  /// Whether there are norms on q and k, which the family has over `over`.
  void qk_norm(ModelSpec& spec, const char* key, QkNormSpec::Over over);
  /// "sliding_window" on every layer, null or absent: `fallback`, 0 for none.
  void same_windows(ModelSpec& spec, std::int64_t fallback);
  /// "sliding_window" on the layers that "layer_types" calls sliding; without that key, where is_sliding(layer).
  void windows(ModelSpec& spec, std::int64_t fallback, const std::function<bool(std::int64_t)>& is_sliding);
  /// Writes the fields after the family's own: the rotary embedding.
  void finish(const ModelSpec& spec);

 private:
  const ConfigReader* from_ = nullptr;
  Json* to_ = nullptr;
  ConfigDefaults defaults_;
};

}  // namespace dml
