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
  // An item of the output: the reasoning, which comes first where there is some, or the message.
  struct Item {
    std::string type, id, part, events;  // part: the type of its content; events: what their names begin with
    std::string text = {};
    int index = 0;
    bool open = false;  // its beginning was sent, but not yet its end
  };
  void send(const std::string& type, Json data);
  Json content_part(const Item& item, const std::string& text) const;
  Json item_json(const Item& item, const char* status) const;
  // The fields of an event about the content of an item.
  static Json place(const Item& item, Json more);
  void add(Item& item, const std::string& text);
  void end(Item& item, const char* status);
  bool has_message() const;
  const char* status() const { return choices_[0].finish == "length" ? "incomplete" : "completed"; }
  Json response(bool ended) const;

  Item reasoning_, message_;
  int items_ = 0;            // sent so far
  std::int64_t number_ = 0;  // of the next event
};

}  // namespace dml
