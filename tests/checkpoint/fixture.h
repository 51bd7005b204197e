// Shared by the tests of this folder: a temporary folder, hand-made safetensors files, and a check that an error is
// thrown with the expected message.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"
#include "temporary_folder.h"

namespace dml::testing_tools {
namespace fs = std::filesystem;

using TempDir = TemporaryFolder;

inline void put(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string get(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A safetensors file with this header, as it stands, and `data` zero bytes.
inline std::string safetensors_bytes(const std::string& header, std::size_t data) {
  std::uint64_t n = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &n, 8);
  return out + header + std::string(data, '\0');
}

/// The message of the UserError that `f` must throw.
template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "not a UserError: " << e.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace dml::testing_tools
