#include "core/fault.h"

#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <map>
#include <new>
#include <stdexcept>
#include <string>

namespace dml {
namespace {

using Fields = std::map<std::string, std::string, std::less<>>;

Fields read_fault() {
  Fields fields;
  const char* text = std::getenv("DML_FAULT");
  for (std::string_view rest = text ? text : ""; !rest.empty();) {
    std::string_view field = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), field.size() + 1));
    if (auto at = field.find('='); at != field.npos) fields.emplace(field.substr(0, at), field.substr(at + 1));
  }
  return fields;
}

void strike(std::string_view kind) {
  if (kind == "kill") std::raise(SIGKILL);
  if (kind == "segv") {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
  if (kind == "abort") std::abort();
  if (kind == "exit0") std::exit(0);
  if (kind == "exit3") std::exit(3);
  if (kind == "throw") throw std::runtime_error("DML_FAULT: an exception");
  if (kind == "bad_alloc") throw std::bad_alloc();
  if (kind == "stop") std::raise(SIGSTOP);
  if (kind == "hang")
    while (true) pause();
}

}  // namespace

bool fault_point(std::string_view point, int rank, std::int64_t step) {
  static const Fields fault = read_fault();
  if (fault.empty()) return false;
  auto is = [](std::string_view name, const std::string& value) {
    auto field = fault.find(name);
    return field == fault.end() || field->second == value;
  };
  if (!is("point", std::string(point)) || !is("rank", std::to_string(rank)) || !is("step", std::to_string(step)))
    return false;
  auto kind = fault.find("kind");
  if (kind == fault.end()) return false;
  strike(kind->second);
  return kind->second == "flip";
}

}  // namespace dml
