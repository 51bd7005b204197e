// The endpoints of the API: make the engine's work from a path and a body. Shared by the server and batch files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/json.h"
#include "serve/constraints.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/openai_request.h"
#include "serve/served_model.h"
#include "serve/work.h"

namespace dml {

class Endpoints {
 public:
  Endpoints(const ServedModels& models, Metrics& metrics)
      : models_(models), metrics_(metrics), reader_(models, constraints_) {}

  /// The paths that the engine answers.
  static std::vector<std::string> paths();
  static bool answers(const std::string& path);
  /// The work of a request to one of the paths, which sends its answer to `reply`. ApiError for an invalid body.
  /// Thread-safe.
  std::shared_ptr<Work> work(const std::string& path, const Json& body, std::shared_ptr<HttpReply> reply) const;
  const RequestReader& reader() const { return reader_; }
  /// Releases memory; called when the server is idle.
  void rest() { constraints_.rest(); }

 private:
  struct Row {
    std::string path;
    std::shared_ptr<Work> (Endpoints::*make)(const Json& body, std::shared_ptr<HttpReply> reply) const;
  };
  static const std::vector<Row>& table();
  std::shared_ptr<Work> chat(const Json& body, std::shared_ptr<HttpReply> reply) const;
  std::shared_ptr<Work> completion(const Json& body, std::shared_ptr<HttpReply> reply) const;
  std::shared_ptr<Work> response(const Json& body, std::shared_ptr<HttpReply> reply) const;
  std::shared_ptr<Work> embedding(const Json& body, std::shared_ptr<HttpReply> reply) const;

  const ServedModels& models_;
  Metrics& metrics_;
  Constraints constraints_;
  RequestReader reader_;
};

}  // namespace dml
