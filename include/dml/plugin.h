// A plug-in of dml: a shared library that adds rows to the program's tables. A recipe loads it with `plugins:
// [./libmine.so]` and then names its rows like those of dml. docs/plugins.md is the guide.
//
//   #include <dml/plugin.h>
//   DML_PLUGIN("mine", "1.0") { registry.add(dml::plugin::Row<dml::plugin::Optimizer>{"sign_sgd", "…", make_sign_sgd});
//   }
//
// A plug-in is not linked with dml; it calls the program only through the objects that are passed to it. An exception
// of a plug-in becomes a one-line error that names the plug-in. These headers are the whole interface.
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

/// Incremented with every incompatible change of these headers.
#define DML_PLUGIN_ABI 1

#define DML_PLUGIN_TEXT_(x) #x
#define DML_PLUGIN_TEXT(x) DML_PLUGIN_TEXT_(x)
/// What a plug-in and the program must also share: the ABI of the C++ library and of its strings, and the version of
/// nlohmann-json.
#define DML_PLUGIN_BUILD                                                      \
  "C++ ABI " DML_PLUGIN_TEXT(__GXX_ABI_VERSION) ", strings " DML_PLUGIN_TEXT( \
      _GLIBCXX_USE_CXX11_ABI) ", nlohmann-json " DML_PLUGIN_TEXT(NLOHMANN_JSON_VERSION_MAJOR) "." DML_PLUGIN_TEXT(NLOHMANN_JSON_VERSION_MINOR)

namespace dml::plugin {

/// The symbol `dml_plugin` of a library, which the program looks up. The first two members never change.
struct Manifest {
  std::uint32_t abi;
  const char* build;
  const char *name, *version;
  void (*add_rows)(Registry& registry);
};

}  // namespace dml::plugin

/// DML_PLUGIN(name, version) { registry.add(…); }, once per library.
#define DML_PLUGIN(name, version)                                                                                 \
  static void dml_plugin_add_rows(::dml::plugin::Registry& registry);                                             \
  extern "C" {                                                                                                    \
  extern __attribute__((visibility("default"))) const ::dml::plugin::Manifest dml_plugin;                         \
  const ::dml::plugin::Manifest dml_plugin{DML_PLUGIN_ABI, DML_PLUGIN_BUILD, name, version, dml_plugin_add_rows}; \
  }                                                                                                               \
  static void dml_plugin_add_rows(::dml::plugin::Registry& registry)
