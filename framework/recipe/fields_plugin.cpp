// Fields of the section about plug-ins.
#include "recipe/codecs.h"

namespace dml::recipe {

Section plugin_section() {
  using S = PluginSection;
  Table t(
      "Plug-ins",
      "Shared libraries that add optimizers, prompt formats and more (docs/plugins.md). A plug-in is code: it runs as "
      "soon as the recipe is read, with your rights, also by `dml validate`.");
  t.defaults<S>();
  t.add("plugins", &S::plugins,
        "Shared libraries to load before anything else of the recipe is checked; their rows can then be named in it.",
        {.example = "[./libmine.so]", .path = true});
  t.add("plugin_args", &S::plugin_args,
        "Arguments of objectives, evaluators, observers and distribution strategies of plug-ins, by their names.",
        {.example = "{slowest: {seconds: 2}}"});
  return {std::move(t), &Recipe::plugin};
}

}  // namespace dml::recipe
