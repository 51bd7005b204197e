#include "checkpoint/quantization_config.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "temporary_folder.h"

namespace dml {
namespace {

class QuantizationConfig : public testing::Test {
 protected:
  std::optional<DType> read(const std::string& text) const {
    write_file(folder_ / kQuantizationConfig, text);
    return read_quantization_config(folder_ / "");
  }
  testing_tools::TemporaryFolder folder_;
};

TEST_F(QuantizationConfig, HasTheFieldsOfBitsAndBytesConfig) {
  const Json four = parse_json(quantization_config_text(DType::nf4, DType::bf16), "text");
  EXPECT_EQ(four, (Json{{"quant_method", "bitsandbytes"},
                        {"load_in_4bit", true},
                        {"bnb_4bit_quant_type", "nf4"},
                        {"bnb_4bit_use_double_quant", true},
                        {"bnb_4bit_compute_dtype", "bfloat16"}}));
  EXPECT_EQ(parse_json(quantization_config_text(DType::int8, DType::f32), "text"),
            (Json{{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}}));
}

TEST_F(QuantizationConfig, IsReadAsItWasWritten) {
  EXPECT_FALSE(read_quantization_config(folder_ / ""));
  for (DType scheme : {DType::nf4, DType::int8}) EXPECT_EQ(read(quantization_config_text(scheme, DType::f32)), scheme);
}

// What BitsAndBytesConfig.to_json_file() of transformers writes.
TEST_F(QuantizationConfig, OfTransformersIsRead) {
  EXPECT_EQ(read(R"({"_load_in_4bit": true, "_load_in_8bit": false, "bnb_4bit_compute_dtype": "float32",
                     "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": false, "llm_int8_threshold": 6.0,
                     "load_in_4bit": true, "load_in_8bit": false, "quant_method": "bitsandbytes"})"),
            DType::nf4);
}

TEST_F(QuantizationConfig, OfAnotherQuantizationIsRefused) {
  for (const char* text :
       {R"({"load_in_4bit": true})", R"({"load_in_4bit": true, "bnb_4bit_quant_type": "fp4"})", "{}", "[]",
        R"({"quant_method": "gptq", "load_in_8bit": true})", R"({"load_in_4bit": true, "load_in_8bit": true})"})
    EXPECT_THROW(read(text), UserError) << text;
}

}  // namespace
}  // namespace dml
