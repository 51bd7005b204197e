// MLflow's file store: mlruns/EXPERIMENT/RUN with meta.yaml, a file for each parameter and tag, and a file for each
// metric whose lines are "milliseconds value step". `mlflow ui --backend-store-uri DIR` shows it.
//
// A resumed run continues its MLflow run if that exists: metrics after the step it resumes from are removed.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/appended_file.h"
#include "train/observer.h"

namespace dml {

class MlflowRun : public Observer {
 public:
  struct Settings {
    std::string root;                  // the folder `mlruns`
    std::string experiment, run_name;  // run_name "": the name of the output directory
  };
  /// IoError when it cannot be written.
  explicit MlflowRun(Settings settings) : settings_(std::move(settings)) {}
  /// Marks a run that ended without on_end() as failed.
  ~MlflowRun() override;

  Action on_start(const RunFacts& facts) override;
  Action on_step(const StepMetrics& metrics) override;
  Action on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>& samples) override;
  void on_end(const RunEnd& end) override;

 private:
  enum class Status { running = 1, finished = 3, failed = 4, killed = 5 };
  void write_meta(Status status) const;
  void metric(const std::string& name, double value, std::int64_t step);

  Settings settings_;
  std::string experiment_id_, run_id_, folder_;
  std::int64_t started_ = 0;  // milliseconds since 1970
  bool ended_ = false;
  std::map<std::string, std::unique_ptr<AppendedFile>> files_;
};

}  // namespace dml
