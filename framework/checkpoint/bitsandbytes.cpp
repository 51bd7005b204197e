#include "checkpoint/bitsandbytes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "checkpoint/packed_groups.h"
#include "core/error.h"
#include "core/shown.h"
#include "kernels/quant_nf4.h"

namespace dml {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__nf4";
constexpr std::array<std::string_view, 4> kParts = {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"};
constexpr JsonLimits kStateLimits{std::size_t{1} << 16, 4, 64, 256};

// bitsandbytes' description of a tensor's quantization.
struct QuantState {
  Json json;
  std::string source;

  QuantState(const TensorView& text, const std::string& directory)
      : source(fmt::format("{}: tensor '{}'", directory, text.name)) {
    json = parse_json({reinterpret_cast<const char*>(text.bytes.data()), text.bytes.size()}, source, kStateLimits);
    if (!json.is_object()) throw UserError("{}: is not an object", source);
  }
};

class Reader {
 public:
  Reader(const ModelFiles& base, const QuantizedMatrix& matrix) : base_(base), matrix_(matrix) {}

  Quantized read() const {
    const auto [state, source] = QuantState(part(kState, DType::u8, -1), base_.directory());
    check(state, source);
    const std::int64_t scales = matrix_.scales(DType::nf4).size();
    Quantized out;
    out.codes = bytes_of(part("", DType::u8, (matrix_.size() + 1) / 2));
    if (std::vector<float> map = floats(".quant_map", 16); !std::ranges::equal(map, kernels::kNf4Codes))
      refuse(".quant_map", "the values are not those of nf4");
    out.scales = state.contains("nested_blocksize") ? nested_scales(state, scales, source) : floats(".absmax", scales);
    if (!std::ranges::all_of(out.scales, [](float s) { return std::isfinite(s); }))
      refuse(".absmax", "a scale is NaN or infinite");
    return out;
  }

 private:
  [[noreturn]] void refuse(std::string_view suffix, std::string_view why) const {
    throw UserError("{}: tensor '{}{}': {}", base_.directory(), matrix_.name, suffix, why);
  }

  const TensorView& part(std::string_view suffix, DType dtype, std::int64_t size) const {
    const TensorView* t = base_.find(matrix_.name + std::string(suffix));
    if (!t) refuse(suffix, "is missing");
    if (t->dtype != dtype || (size >= 0 && t->size() != size))
      refuse(suffix, fmt::format("is {} {}, expected {} values of {}", safetensors_name(t->dtype), shape_text(t->shape),
                                 size, safetensors_name(dtype)));
    return *t;
  }

  static std::vector<std::uint8_t> bytes_of(const TensorView& t) {
    std::vector<std::uint8_t> out(t.bytes.size());
    std::memcpy(out.data(), t.bytes.data(), out.size());
    return out;
  }

  std::vector<float> floats(std::string_view suffix, std::int64_t size) const {
    return part(suffix, DType::f32, size).floats(base_.directory());
  }

  void check(const Json& state, const std::string& source) const {
    if (auto type = json_string(state, "quant_type", "", source); type != "nf4")
      throw UserError("{}: quant_type '{}'; only nf4 can be read", source, shown(type, 40));
    if (auto size = json_integer(state, "blocksize", 0, source); size != kernels::kNf4Block)
      throw UserError("{}: blocks of {} weights; only {} can be read", source, size, kernels::kNf4Block);
    if (state.value("shape", Json()) != Json::array({matrix_.rows, matrix_.cols}) || matrix_.transposed)
      throw UserError("{}: shape {}, config.json asks for [{}, {}]", source,
                      shown(dump(state.value("shape", Json())), 40), matrix_.rows, matrix_.cols);
  }

  std::vector<float> nested_scales(const Json& state, std::int64_t count, const std::string& source) const {
    std::int64_t size = json_integer(state, "nested_blocksize", 0, source);
    if (size < 1) throw UserError("{}: nested_blocksize {}", source, size);
    auto codes = bytes_of(part(".absmax", DType::u8, count));
    auto map = floats(".nested_quant_map", 256), most = floats(".nested_absmax", (count - 1) / size + 1);
    auto offset = static_cast<float>(json_number(state, "nested_offset", 0, source));
    std::vector<float> out(codes.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      volatile float scaled =
          map[codes[i]] * most[i / static_cast<std::size_t>(size)];  // volatile: rounded before it is added
      out[i] = scaled + offset;
    }
    return out;
  }

  const ModelFiles& base_;
  const QuantizedMatrix& matrix_;
};

}  // namespace

bool is_bitsandbytes_config(const Json& config, const std::string& source) {
  if (packed_config(config, source).format != PackedFormat::none) return false;
  auto found = config.find("quantization_config");
  if (found == config.end() || found->is_null()) return false;
  const char* advice =
      "of these, bitsandbytes' nf4, AWQ, GPTQ and mlx-lm's 4 bits can be read; take the unquantized model";
  if (json_string(config, "model_type", "", source) == "gpt_oss" &&
      json_string(*found, "quant_method", "", source) == "mxfp4")
    return false;  // its experts are used in their stored format
  if (!found->is_object()) throw UserError("{}: 'quantization_config' is not an object", source);
  if (auto method = json_string(*found, "quant_method", "bitsandbytes", source); method != "bitsandbytes")
    throw UserError("{}: 'quantization_config': quantized by '{}'; {}", source, shown(method, 40), advice);
  if (!json_bool(*found, "load_in_4bit", false, source))
    throw UserError("{}: 'quantization_config': quantized to 8 bits; {}", source, advice);
  if (auto type = json_string(*found, "bnb_4bit_quant_type", "fp4", source); type != "nf4")
    throw UserError("{}: 'quantization_config': quantized to '{}'; {}", source, shown(type, 40), advice);
  return true;
}

bool is_bitsandbytes(const ModelFiles& base, const std::string& name) {
  return base.find(name + std::string(kState)) != nullptr;
}

bool is_bitsandbytes_in_16_bits(const ModelFiles& base, const std::string& name) {
  const QuantState state(*base.find(name + std::string(kState)), base.directory());
  return json_string(state.json, "dtype", "float32", state.source) != "float32";
}

Quantized read_bitsandbytes(const ModelFiles& base, const QuantizedMatrix& matrix, DType scheme) {
  if (scheme != DType::nf4)
    throw UserError(
        "{}: is quantized to nf4 already; load_in_8bit needs the unquantized model, load_in_4bit takes this one",
        base.directory());
  return Reader(base, matrix).read();
}

bool is_bitsandbytes_part(std::string_view name) {
  return name.ends_with(kState) || std::ranges::any_of(kParts, [&](auto part) { return name.ends_with(part); });
}

}  // namespace dml
