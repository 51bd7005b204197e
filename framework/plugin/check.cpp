// Checks of answers from plug-ins: rows of `evals.checks`.
#include <algorithm>
#include <cmath>

#include "evaluate/checks.h"
#include "plugin/adapters.h"

namespace dml {
namespace {

class PluginCheck : public AnswerCheck {
 public:
  PluginCheck(Origin origin, std::string name, std::unique_ptr<plugin::AnswerCheck> check)
      : origin_(std::move(origin)), name_(std::move(name)), check_(std::move(check)) {}

  std::string problem_with(const Json& row) const override {
    return guarded(origin_, [&] { return one_line(check_->problem_with(row)); });
  }
  Verdict decide(const EvalAnswer& answer, const Json& row) override {
    const plugin::Verdict v = guarded(origin_, [&] {
      return check_->check({answer.prompt, answer.reference, answer.output}, row);
    });
    if (v.score && !std::isfinite(*v.score)) plugin_failed(origin_, "check() gave a score that is not a finite number");
    return {v.decided, v.pass, v.score, v.critique};
  }
  std::string name() const override { return name_; }

 private:
  Origin origin_;
  std::string name_;
  std::unique_ptr<plugin::AnswerCheck> check_;
};

}  // namespace

void add_row(const Origin& origin, plugin::Row<plugin::AnswerCheck> row) {
  auto make = [origin, row](const CheckRequest& request) -> std::unique_ptr<AnswerCheck> {
    Json given = request.options;
    std::string name = request.name;
    if (const auto own = given.find("name"); own != given.end() && own->is_string())
      name = own->get<std::string>(), given.erase("name");
    Json arguments = checked_arguments(row.arguments, given, fmt::format("check '{}'", request.name));
    arguments["value"] = request.value;
    return std::make_unique<PluginCheck>(origin, name, make_of(origin, row, arguments));
  };
  add_names(checks(), row, CheckKind{.make = make, .checks_options = true});
}

}  // namespace dml
