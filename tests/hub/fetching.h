// Downloads one model from the mock of the Hub, and checks the cache afterwards.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/files.h"
#include "hub/fetch.h"
#include "hub/mock_hub.h"

namespace dml::testing_tools {

class Fetching : public testing::Test {
 protected:
  void SetUp() override {
    hub_.add("models/org/model/config.json", "{\"model_type\": \"llama\"}");
    hub_.add("models/org/model/model.safetensors", weights_);
    hub_.add("models/org/model/tokenizer.json", varied_bytes(2500, 2));
    hub_.add("models/org/model/additional_chat_templates/tool.jinja", "{{ x }}");
    hub_.add("models/org/model/pytorch_model.bin", "never");
    hub_.add("models/org/model/empty.txt", "");
  }

  FetchRequest request(const std::string& name = "org/model") const {
    FetchRequest out;
    out.name = *parse_hub_name(name);
    out.range_bytes = 1500;  // several ranges a file
    return out;
  }
  Fetched fetch(const FetchRequest& request, const std::string& token = "") const {
    return fetch_from_hub(HubClient(hub_.options(token)), request);
  }
  Fetched fetch(const std::string& name = "org/model") const { return fetch(request(name)); }
  // In a child process.
  [[noreturn]] void fetch_and_exit(const FetchRequest& request) const {
    try {
      fetch(request);
    } catch (const std::exception&) {
      _exit(1);
    }
    _exit(0);
  }
  std::string problem(const FetchRequest& asked, const std::string& token = "") const {
    try {
      fetch(asked, token);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string problem(const std::string& name = "org/model") const { return problem(request(name)); }

  // Every file as the Hub has it, and nothing in the cache but blobs, links and the reference.
  void expect_right(const Fetched& fetched) const {
    for (const HubFile& file : fetched.files)
      EXPECT_EQ(read_file(fetched.folder + "/" + file.path), hub_.content("models/org/model/" + file.path))
          << file.path;
    expect_clean();
    EXPECT_EQ(read_file(hub_.cache("models--org--model/refs/main")), fetched.commit);
    EXPECT_EQ(find_in_hub_cache(HubKind::model, "org/model"), fetched.folder);
  }
  void expect_clean() const {
    for (auto& entry : std::filesystem::recursive_directory_iterator(hub_.cache())) {
      const std::string name = entry.path().filename();
      EXPECT_EQ(name.find("incomplete"), name.npos) << entry.path();
      EXPECT_EQ(name.find(".dml"), name.npos) << entry.path();
      EXPECT_TRUE(entry.is_directory() || name.find(".lock") == name.npos) << entry.path();
    }
  }

  MockHub hub_;
  const std::string weights_ = varied_bytes(10'000);
};

}  // namespace dml::testing_tools
