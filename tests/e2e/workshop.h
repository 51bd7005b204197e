// A temporary folder with small data, a recipe and a base model of 50 thousand parameters, for one test.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/json.h"
#include "e2e/child.h"

namespace dml::e2e {

/// Recipe keys and their values, as YAML text.
using Keys = std::map<std::string, std::string>;

class Workshop : public testing::Test {
 public:
  Workshop();
  ~Workshop() override;

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const;
  /// Rows of questions and answers of many lengths; the same numbers give the same rows.
  std::string alpaca(const std::string& name, int rows, int first = 0) const;
  /// A recipe of ten steps of four micro-batches on at("rows.jsonl"), changed by `keys` ("" as value drops a key).
  std::string recipe(const std::string& name, const Keys& keys) const;

  Ended dml(Words words, Surroundings around = {}) const;
  /// dml train under mpirun when there are several ranks.
  Ended train(int ranks, const std::string& recipe, Words more = {}, Surroundings around = {}) const;
  /// Expects that it ended with `exit`, one "error:" line with every text of `says`, little memory, and left nothing
  /// half-written.
  void expect_refused(const Ended& e, int exit, const Words& says) const;
  /// Files and folders whose names contain `what`.
  std::string names_left(const std::string& what) const;

 protected:
  std::string folder_;
};

/// A run whose last rank stops itself before `step`, so that actions of the test happen neither before the run has
/// started nor after its end, whatever the scheduling. If a test ends early, that rank is killed.
struct StoppedRun {
  /// `words`: the whole command; `job`: text that is in the ranks' command lines.
  StoppedRun(const Words& words, const std::string& job, int ranks, int step);
  ~StoppedRun();
  void resume() const;
  Child child;
  pid_t rank;
};

/// Whether DML_LONG asks for the long forms of tests.
bool long_form();
Keys operator+(Keys a, const Keys& b);
/// Architecture and tokenizer of a model from scratch.
Keys tiny_model();
/// LoRA with dropout over base(), which is made once per program.
Keys tiny_lora();
/// A model directory: tiny_model() trained for a few steps.
const std::string& base_directory();

/// The training steps and evaluations of a run without what depends on the clock.
std::string numbers_of(const std::string& metrics_path);
std::vector<Json> json_lines(const std::string& path);
/// Name → contents of every regular file directly in a folder that holds results (weights, configs).
std::map<std::string, std::string> results_in(const std::string& folder);
std::string shared(const std::string& path);

}  // namespace dml::e2e
