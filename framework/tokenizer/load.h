// Loading with the stages still in reach; everybody else uses load_tokenizer().
#pragma once

#include <memory>
#include <string>

#include "tokenizer/pipeline.h"
#include "tokenizer/settings.h"

namespace dml {

std::unique_ptr<Pipeline> load_pipeline(const std::string& directory, const TokenizerOverrides& overrides = {});

}  // namespace dml
