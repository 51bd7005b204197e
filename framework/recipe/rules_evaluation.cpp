// Rules of the keys about evaluations and logs.
#include "core/error.h"
#include "hub/cache.h"
#include "recipe/rule_report.h"

namespace dml::recipe {

void check_evals(const EvalSection& section, RuleReport& rules) {
  for (std::size_t i = 0; i < section.evals.size(); ++i) {
    const EvalEntry& e = section.evals[i];
    auto key = [&](const char* name) { return fmt::format("evals.{}.{}", i, name); };
    if (e.task.empty() && e.checks.empty())
      rules.error(key("name"), fmt::format("'{}' is missing: name a check, or set 'task'", key("checks")));
    if (e.task.empty()) continue;
    for (auto [name, given] : {std::pair{"checks", !e.checks.empty()}, {"prompts", !e.prompts.empty()}})
      if (given)
        rules.error(key(name),
                    fmt::format("'{}' contradicts {}, which brings its own", key(name), rules.cite(key("task"))));
  }
}

// Checks the settings of experiment trackers and of the Hub.
void check_log(const LogSection& log, RuleReport& rules) {
  if (log.hub_model_id && (!parse_hub_name(*log.hub_model_id) || log.hub_model_id->find('@') != std::string::npos))
    rules.error("hub_model_id",
                fmt::format("'hub_model_id' is '{}', expected a name of the Hub: org/name", shown(*log.hub_model_id)));
  if (!log.mlflow_tracking_uri) return;
  const std::string& uri = *log.mlflow_tracking_uri;
  if (uri.find("://") != uri.npos && !uri.starts_with("file://"))
    rules.error("mlflow_tracking_uri",
                fmt::format("'mlflow_tracking_uri' is '{}'; dml writes MLflow's file store and sends "
                            "nothing: expected a directory or file:PATH",
                            uri));
}

}  // namespace dml::recipe
