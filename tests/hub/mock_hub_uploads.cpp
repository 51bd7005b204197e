// What a push asks of the Hub: a repository, how files are to be sent, Git LFS in one part or several, and the commit.
#include <fmt/format.h>

#include <regex>
#include <sstream>

#include "core/base64.h"
#include "core/sha.h"
#include "hub/mock_hub.h"

namespace dml::testing_tools {
namespace {

constexpr std::size_t kOnePartBelow = 5000, kPart = 2000;

}  // namespace

MockAnswer MockHub::post(const MockRequest& request, bool cdn) {
  static const std::regex of_repository("/api/((?:models|datasets)/.+)/(preupload|commit|branch)/(.+)");
  if (!cdn && request.path.starts_with("/api") && request.header("authorization") != kToken)
    return error(401, "Invalid username or password.");
  std::smatch match;
  if (std::regex_match(request.path, match, of_repository)) {
    if (match[2] == "commit") return commit(match[1], request.body);
    if (match[2] == "branch")
      return match[3].str().starts_with("refs/") ? error(400, "Invalid branch name") : in_json(200, Json::object());
    Json files = Json::array();
    const Json asked_for = parse_json(request.body, "preupload");
    const std::optional<MockFault> ignored = fault("ignore");
    for (const Json& asked : asked_for["files"])
      files.push_back({{"path", asked["path"]},
                       {"uploadMode", asked["size"] >= kLargeFrom ? "lfs" : "regular"},
                       {"shouldIgnore", ignored && asked["path"] == ignored->text}});
    return in_json(200, {{"files", files}});
  }
  const Json body = parse_json(request.body, "request");
  if (request.path == "/api/repos/create") {
    if (fault("no creation")) return error(403, "You don't have the rights to create a model in this namespace");
    const std::string place = fmt::format("{}s/{}/{}", body["type"].get<std::string>(),
                                          body["organization"].get<std::string>(), body["name"].get<std::string>());
    if (!repositories_.try_emplace(place).second) return error(409, "You already created this repo");
    created_ = body;
    return in_json(200, {{"url", "http://hub/" + place}});
  }
  if (request.path.ends_with("/info/lfs/objects/batch")) {
    Json objects = Json::array();
    for (const Json& object : body["objects"]) objects.push_back(upload_of(object));
    return in_json(200, {{"objects", objects}});
  }
  const std::string oid = body.value("oid", "");
  if (request.path.starts_with("/complete/")) {
    std::map<int, std::string> parts;
    for (const Json& part : body["parts"]) {
      const std::string tag = part["etag"].get<std::string>();
      parts[part["partNumber"].get<int>()] = uploaded_.at(tag.substr(1, tag.size() - 2));
    }
    std::string& all = uploaded_[oid];
    for (const auto& [number, bytes] : parts) all += bytes;
    return in_json(200, Json::object());
  }
  if (request.path.starts_with("/verify/"))
    return in_json(Sha256().update(uploaded_[oid]).hex() == oid ? 200 : 422, Json::object());
  return error(404, "no such page");
}

Json MockHub::upload_of(const Json& object) const {
  const std::string oid = object["oid"].get<std::string>(), place = cdn_->address();
  const std::size_t size = object["size"].get<std::size_t>();
  if (uploaded_.contains(oid)) return object;
  Json upload{{"href", fmt::format("{}/put/{}", place, oid)}};
  if (size >= kOnePartBelow) {
    Json header{{"chunk_size", std::to_string(kPart)}};
    for (std::size_t i = 1; i <= (size + kPart - 1) / kPart; ++i)
      header[fmt::format("{:05}", i)] = fmt::format("{}/put/{}-{}", place, oid, i);
    upload = {{"href", fmt::format("{}/complete/{}", place, oid)}, {"header", header}};
  }
  return {{"oid", oid},
          {"size", size},
          {"actions", {{"upload", upload}, {"verify", {{"href", fmt::format("{}/verify/{}", place, oid)}}}}}};
}

MockAnswer MockHub::put(const MockRequest& request) {
  const std::string name = request.path.substr(request.path.rfind('/') + 1);
  uploaded_[name] = request.body;
  return {.headers = {{"ETag", '"' + name + '"'}}};
}

MockAnswer MockHub::commit(const std::string& repository, const std::string& body) {
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) {
    const Json entry = parse_json(line, "commit");
    if (entry["key"] == "header") continue;
    const Json& value = entry["value"];
    const std::string content = entry["key"] == "lfsFile" ? uploaded_.at(value["oid"].get<std::string>())
                                                          : from_base64(value["content"].get<std::string>()).value();
    repositories_[repository][value["path"].get<std::string>()] = file_of(content);
  }
  return in_json(200, {{"commitUrl", "http://hub/commit/" + commit_of(repository)}});
}

}  // namespace dml::testing_tools
