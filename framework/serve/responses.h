// /v1/responses for text: the request is converted to a chat request, the answer to the form of the Responses API.
#pragma once

#include "serve/openai_answer.h"

namespace dml {

/// Converts a request to a chat request. ApiError with field names of the Responses API.
Json chat_of_response(const Json& body);
/// Converts an error in the chat request: field names become those of the Responses API.
ApiError of_response(ApiError error);

class ResponseAnswer : public TextAnswer {
 public:
  ResponseAnswer(Asked asked, const AnswerFormat& format, std::shared_ptr<HttpReply> reply, Metrics& metrics);

 protected:
  void tell(std::size_t i, const std::string& piece, bool last) override;
  Json whole() override;
  void end_stream() override {}
  void end_with(const ApiError& e) override;

 private:
  void send(const char* type, Json data);
  Json message(const char* status) const;
  Json response(const char* status) const;

  std::string message_id_;
  std::string text_;
  std::int64_t number_ = 0;  // of the next event
};

}  // namespace dml
