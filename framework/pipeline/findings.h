// The problems that the checks before a run find, each once.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace dml {

class Findings {
 public:
  void add(const Problem& problem) {
    // One text may hold several lines; repeated lines are dropped.
    for (std::size_t at = 0; at < problem.text.size();) {
      const std::size_t end = std::min(problem.text.find('\n', at), problem.text.size());
      Problem one{problem.key, problem.place, problem.text.substr(at, end - at)};
      if (std::ranges::find(all, one.text, &Problem::text) == all.end()) all.push_back(std::move(one));
      at = end + 1;
    }
  }
  /// Runs a check. Its errors concern `key`, unless they name another one.
  template <class F>
  bool attempt(const std::string& key, F&& part) {
    try {
      part();
      return true;
    } catch (const UserError& error) {
      for (const Problem& problem : error.about(key).problems()) add(problem);
    } catch (const Error& error) {
      add({key, "", error.what()});
    }
    return false;
  }
  /// Runs a check of files that `key` names. Its errors concern that key alone, also those that name fields of the
  /// files.
  template <class F>
  void attempt_files(const std::string& key, F&& part) {
    attempt(key, [&] {
      try {
        part();
      } catch (const UserError& error) {
        std::vector<Problem> problems = error.problems();
        for (Problem& problem : problems) problem.key = key;
        throw UserError(std::move(problems));
      }
    });
  }
  std::vector<Problem> all;
};

}  // namespace dml
