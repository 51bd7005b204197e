// Plug-ins that must be rejected: compiled once for each BROKEN (described in plugin_test.cpp).
#include <dml/plugin.h>

#include <stdexcept>

namespace {

using namespace dml::plugin;

class Constant : public Schedule {
 public:
  double factor(const SchedulePosition&) const override { return 1; }
};

[[maybe_unused]] Row<Schedule> row(const std::string& name) {
  return {name, "constant", [](const Json&) { return std::make_unique<Constant>(); }};
}

}  // namespace

#if BROKEN == 1  // of another version of the interface
static void add_nothing(Registry&) {}
extern "C" {
extern const Manifest dml_plugin;
const Manifest dml_plugin{DML_PLUGIN_ABI + 1, DML_PLUGIN_BUILD, "later", "9", add_nothing};
}
#elif BROKEN == 2  // of another compiler
static void add_nothing(Registry&) {}
extern "C" {
extern const Manifest dml_plugin;
const Manifest dml_plugin{DML_PLUGIN_ABI, "C++ ABI 1", "foreign", "1", add_nothing};
}
#elif BROKEN == 3  // throws
DML_PLUGIN("thrower", "1") {
  registry.add(row("thrown"));
  throw std::runtime_error("no license\nfor this");
}
#elif BROKEN == 4  // adds a name twice
DML_PLUGIN("twice", "1") {
  registry.add(row("once"));
  registry.add(row("once"));
}
#elif BROKEN == 5  // adds a name of dml
DML_PLUGIN("taken", "1") { registry.add(row("cosine")); }
#elif BROKEN == 6  // adds a name of the plug-in `mine`
DML_PLUGIN("copy", "1") { registry.add(row("halves")); }
#elif BROKEN == 7  // an optimizer's argument has its default from a setting that is none
DML_PLUGIN("drifting", "1") {
  registry.add(row("before"));
  registry.add(Row<Optimizer>{"drift", "none", nullptr, {{"rate", "of drift", 0.5, 1, {}, "drift_rate"}}});
}
#else              // is none
extern "C" int dml_nothing() { return row("x").name.empty(); }
#endif
