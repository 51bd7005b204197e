// The work of a request to /v1/embeddings.
#pragma once

#include <memory>
#include <vector>

#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/openai_request.h"
#include "serve/work.h"

namespace dml {

/// Returns the mean of the last layer's hidden states over the tokens, normalized to length 1.
class EmbeddingAnswer : public Work {
 public:
  EmbeddingAnswer(RequestReader::Embedding asked, std::shared_ptr<HttpReply> reply, Metrics& metrics);
  std::vector<EngineRequest> take_requests() override;
  bool on_event(std::size_t i, const EngineEvent& event) override;
  bool gone() const override { return reply_->gone(); }
  void fail(const std::exception& why) override;
  void cut_off() override;

 private:
  RequestReader::Embedding asked_;
  std::shared_ptr<HttpReply> reply_;
  Metrics& metrics_;
  std::vector<std::vector<float>> results_;
  std::size_t missing_;
  std::int64_t tokens_ = 0;
};

}  // namespace dml
