#include "serve/endpoints.h"

#include "core/error.h"
#include "serve/embedding_answer.h"
#include "serve/openai_answer.h"
#include "serve/responses.h"

namespace dml {

bool Endpoints::answers(const std::string& path) {
  return path == "/v1/chat/completions" || path == "/v1/completions" || path == "/v1/responses" ||
         path == "/v1/embeddings";
}

std::shared_ptr<Work> Endpoints::work(const std::string& path, const Json& body,
                                      std::shared_ptr<HttpReply> reply) const {
  DML_CHECK(answers(path));
  const AnswerFormat& format = models_.format();
  if (path == "/v1/completions")
    return std::make_shared<CompletionAnswer>(reader_.completion(body), format, std::move(reply), metrics_);
  if (path == "/v1/chat/completions")
    return std::make_shared<ChatAnswer>(reader_.chat(body), format, std::move(reply), metrics_);
  if (path == "/v1/embeddings")
    return std::make_shared<EmbeddingAnswer>(reader_.embedding(body), std::move(reply), metrics_);
  const Json chat = chat_of_response(body);
  try {
    return std::make_shared<ResponseAnswer>(reader_.chat(chat), format, std::move(reply), metrics_);
  } catch (const ApiError& e) {
    throw of_response(e);
  }
}

}  // namespace dml
