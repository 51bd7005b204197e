#include "serve/endpoints.h"

#include <algorithm>

#include "core/error.h"
#include "serve/embedding_answer.h"
#include "serve/openai_answer.h"
#include "serve/responses.h"

namespace dml {

const std::vector<Endpoints::Row>& Endpoints::table() {
  static const std::vector<Row> rows{{"/v1/chat/completions", &Endpoints::chat},
                                     {"/v1/completions", &Endpoints::completion},
                                     {"/v1/responses", &Endpoints::response},
                                     {"/v1/embeddings", &Endpoints::embedding}};
  return rows;
}

std::vector<std::string> Endpoints::paths() {
  std::vector<std::string> out;
  for (const Row& row : table()) out.push_back(row.path);
  return out;
}

bool Endpoints::answers(const std::string& path) {
  return std::ranges::find(table(), path, &Row::path) != table().end();
}

std::shared_ptr<Work> Endpoints::work(const std::string& path, const Json& body,
                                      std::shared_ptr<HttpReply> reply) const {
  const auto row = std::ranges::find(table(), path, &Row::path);
  DML_CHECK(row != table().end());
  return (this->*row->make)(body, std::move(reply));
}

std::shared_ptr<Work> Endpoints::chat(const Json& body, std::shared_ptr<HttpReply> reply) const {
  return std::make_shared<ChatAnswer>(reader_.chat(body), models_.format(), std::move(reply), metrics_);
}

std::shared_ptr<Work> Endpoints::completion(const Json& body, std::shared_ptr<HttpReply> reply) const {
  return std::make_shared<CompletionAnswer>(reader_.completion(body), models_.format(), std::move(reply), metrics_);
}

std::shared_ptr<Work> Endpoints::response(const Json& body, std::shared_ptr<HttpReply> reply) const {
  const Json chat = chat_of_response(body);
  try {
    return std::make_shared<ResponseAnswer>(reader_.chat(chat), models_.format(), std::move(reply), metrics_);
  } catch (const ApiError& e) {
    throw of_response(e);
  }
}

std::shared_ptr<Work> Endpoints::embedding(const Json& body, std::shared_ptr<HttpReply> reply) const {
  return std::make_shared<EmbeddingAnswer>(reader_.embedding(body), std::move(reply), metrics_);
}

}  // namespace dml
