// A plug-in of dml: a shared library that adds rows to the tables of the program. A recipe loads it with
// `plugins: [./libmine.so]`, and names its rows as it names those of dml. docs/plugins.md is the guide.
//
//   #include <dml/plugin.h>
//   DML_PLUGIN("mine", "1.0") { registry.add(dml::plugin::Row<dml::plugin::Optimizer>{"sign_sgd", "…", make_sign_sgd});
//   }
//
// A plug-in calls nothing in the program but through the objects that it is given, and is linked with nothing of dml.
// All that it throws becomes one line of error that names the plug-in. These headers are the whole interface.
#pragma once

#include <cstdint>

#include "dml/evaluator.h"
#include "dml/objective.h"
#include "dml/observer.h"
#include "dml/optimizer.h"
#include "dml/prompt.h"
#include "dml/registry.h"
#include "dml/schedule.h"
#include "dml/strategy.h"

/// Raised with every change of these headers that a compiled plug-in would not survive.
#define DML_PLUGIN_ABI 1

#define DML_PLUGIN_TEXT_(x) #x
#define DML_PLUGIN_TEXT(x) DML_PLUGIN_TEXT_(x)
/// What both sides must share besides: the layouts of the C++ library and of its strings, and the version of
/// nlohmann-json.
#define DML_PLUGIN_BUILD                                                      \
  "C++ ABI " DML_PLUGIN_TEXT(__GXX_ABI_VERSION) ", strings " DML_PLUGIN_TEXT( \
      _GLIBCXX_USE_CXX11_ABI) ", nlohmann-json " DML_PLUGIN_TEXT(NLOHMANN_JSON_VERSION_MAJOR) "." DML_PLUGIN_TEXT(NLOHMANN_JSON_VERSION_MINOR)

namespace dml::plugin {

/// The symbol `dml_plugin` of a library, which the program looks up. The first two members never move.
struct Manifest {
  std::uint32_t abi;
  const char* build;
  const char *name, *version;
  void (*add_rows)(Registry& registry);
};

}  // namespace dml::plugin

/// DML_PLUGIN(name, version) { registry.add(…); }, once in a library.
#define DML_PLUGIN(name, version)                                                                                 \
  static void dml_plugin_add_rows(::dml::plugin::Registry& registry);                                             \
  extern "C" {                                                                                                    \
  extern __attribute__((visibility("default"))) const ::dml::plugin::Manifest dml_plugin;                         \
  const ::dml::plugin::Manifest dml_plugin{DML_PLUGIN_ABI, DML_PLUGIN_BUILD, name, version, dml_plugin_add_rows}; \
  }                                                                                                               \
  static void dml_plugin_add_rows(::dml::plugin::Registry& registry)
