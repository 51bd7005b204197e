// Keeps what an answer writes.
#pragma once

#include <string>
#include <string_view>

#include "serve/http.h"

namespace dml {

class RecordedReply : public HttpReply {
 public:
  void add_header(const std::string&, const std::string&) override {}
  void send(HttpResponse response) override { body = response.body; }
  void begin(HttpResponse) override {}
  void write(std::string_view piece) override { body += piece; }
  void finish() override {}
  bool gone() const override { return false; }
  std::string body;
};

}  // namespace dml
