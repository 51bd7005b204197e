#include "checkpoint/quantization_config.h"

#include "checkpoint/model_config.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

namespace dml {

std::string quantization_config_text(DType scheme, DType base) {
  Json config{{"quant_method", "bitsandbytes"}};
  if (scheme == DType::nf4) {
    config["load_in_4bit"] = true;
    config["bnb_4bit_quant_type"] = "nf4";
    config["bnb_4bit_use_double_quant"] = true;
    config["bnb_4bit_compute_dtype"] = base == DType::f32 ? "float32" : "bfloat16";
  } else {
    config["load_in_8bit"] = true;
  }
  return pretty_json(config);
}

std::optional<DType> read_quantization_config(const std::string& folder) {
  const std::string path = path_in(folder, kQuantizationConfig);
  if (!file_exists(path)) return {};
  const Json config = read_json(path, {.bytes = 1 << 20});
  if (!config.is_object()) throw UserError("{}: expected an object of settings", path);
  const std::string method = json_string(config, "quant_method", "bitsandbytes", path);
  const bool four = json_bool(config, "load_in_4bit", false, path),
             eight = json_bool(config, "load_in_8bit", false, path);
  const std::string type = json_string(config, "bnb_4bit_quant_type", "fp4", path);
  if (method != "bitsandbytes" || four == eight || (four && type != "nf4"))
    throw UserError("{}: only bitsandbytes' load_in_4bit with nf4 and load_in_8bit are supported", path);
  return four ? DType::nf4 : DType::int8;
}

}  // namespace dml
