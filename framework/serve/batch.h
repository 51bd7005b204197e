// Answers a file of requests in OpenAI's batch format with the engine, without a server. A line is {"custom_id",
// "method": "POST", "url", "body"}; for each, the output has a line {"id", "custom_id", "response": {"status_code",
// "request_id", "body"}, "error": null}, in the order of the input. An invalid body is answered with its error, as by
// the API.
#pragma once

#include <string>

#include "generate/engine.h"
#include "serve/served_model.h"

namespace dml {

/// Whether the first row of a JSONL file is a batch request.
bool is_batch_file(const std::string& path);

struct BatchCount {
  std::size_t answered = 0, refused = 0;
  GenerationSpeed speed = {};

  /// "14 answered, 1 refused. Prompt: …"
  std::string text() const;
};
/// Answers all requests, or with `resume` those that an interrupted run has not answered (pipeline/kept_rows.h).
/// UserError listing every line that is not a request, before the first is answered.
BatchCount answer_batch(const ServedModels& models, const std::string& input, const std::string& output, bool resume);

}  // namespace dml
