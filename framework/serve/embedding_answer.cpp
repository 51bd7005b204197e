#include "serve/embedding_answer.h"

#include <algorithm>
#include <cmath>

#include "core/base64.h"

namespace dml {

EmbeddingAnswer::EmbeddingAnswer(RequestReader::Embedding asked, std::shared_ptr<HttpReply> reply, Metrics& metrics)
    : asked_(std::move(asked)),
      reply_(std::move(reply)),
      metrics_(metrics),
      results_(asked_.inputs.size()),
      missing_(asked_.inputs.size()) {}

std::vector<EngineRequest> EmbeddingAnswer::take_requests() {
  std::vector<EngineRequest> out;
  for (const auto& input : asked_.inputs) {
    tokens_ += std::ssize(input);
    out.push_back({.prompt = input, .model = asked_.model, .max_new_tokens = 0, .embedding = true});
  }
  return out;
}

bool EmbeddingAnswer::on_event(std::size_t i, const EngineEvent& event) {
  if (event.kind != EngineEvent::Kind::end) return true;
  std::vector<float> x = event.embedding;
  double square = 0;
  for (float v : x) square += static_cast<double>(v) * v;
  for (float& v : x) v = static_cast<float>(v / std::sqrt(square));
  results_[i] = std::move(x);
  if (--missing_ > 0) return false;
  Json data = Json::array();
  for (std::size_t n = 0; n < results_.size(); ++n) {
    Json value = results_[n];
    if (asked_.base64)
      value = to_base64({reinterpret_cast<const char*>(results_[n].data()), results_[n].size() * sizeof(float)});
    data.push_back({{"object", "embedding"}, {"index", n}, {"embedding", value}});
  }
  reply_->send({.status = 200,
                .body = dump(Json{{"object", "list"},
                                  {"data", data},
                                  {"model", asked_.model_name},
                                  {"usage", {{"prompt_tokens", tokens_}, {"total_tokens", tokens_}}}})});
  return false;
}

void EmbeddingAnswer::fail(const std::exception& why) { reply_->send(error_of(why).response()); }
void EmbeddingAnswer::cut_off() { reply_->send(closing_error().response()); }

}  // namespace dml
