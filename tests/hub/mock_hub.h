// The mock of the Hub (mock_hub.py) beside a test, with a folder of its repositories and an empty cache of one's own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "core/files.h"
#include "hub/client.h"
#include "temporary_folder.h"

namespace dml::testing_tools {

class MockHub {
 public:
  MockHub() {
    make_directories(folder_ / "hub");
    const std::string command = std::string("exec python3 '") + DML_SOURCE_DIR + "/tests/hub/mock_hub.py' '" + (folder_ / "hub") +
                                "' '" + (folder_ / "ports") + "' 2>/dev/null";
    process_ = popen(command.c_str(), "w");  // the mock ends when this pipe does
    for (int i = 0; i < 3000 && !file_exists(folder_ / "ports"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (file_exists(folder_ / "ports")) std::sscanf(read_file(folder_ / "ports").c_str(), "%d %d", &port_, &cdn_);
    setenv("HF_HUB_CACHE", (folder_ / "cache").c_str(), 1);
    setenv("no_proxy", "127.0.0.1", 1);
    for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"}) unsetenv(name);
  }
  ~MockHub() {
    pclose(process_);
    unsetenv("HF_HUB_CACHE");
  }

  bool is_there() const { return port_ > 0; }
  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }
  int cdn() const { return cdn_; }

  /// "models/org/name/config.json"
  void add(const std::string& path, const std::string& content) const {
    make_directories(std::filesystem::path(at(path)).parent_path());
    write_file(at(path), content);
  }
  /// See mock_hub.py.
  void set_faults(const std::string& json) const { write_file(at("faults.json"), json); }
  std::string requests() const { return file_exists(at("requests.log")) ? read_file(at("requests.log")) : ""; }
  void forget_requests() const { write_file(at("requests.log"), ""); }
  std::string at(const std::string& path) const { return folder_ / ("hub/" + path); }
  std::string cache(const std::string& path = "") const { return folder_ / ("cache/" + path); }
  std::string scratch(const std::string& path) const { return folder_ / path; }

  /// Without waits between tries.
  HubOptions options(const std::string& token = "") const {
    HubOptions out;
    out.endpoint = endpoint();
    out.token = token;
    out.first_wait = out.longest_wait = 0.001;
    return out;
  }

 private:
  const TemporaryFolder folder_;
  FILE* process_ = nullptr;
  int port_ = 0, cdn_ = 0;
};

/// Bytes that do not repeat.
inline std::string varied_bytes(std::size_t size, unsigned seed = 1) {
  std::string out(size, '\0');
  unsigned state = seed * 2654435761u + 1;
  for (char& c : out) c = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  return out;
}

}  // namespace dml::testing_tools
