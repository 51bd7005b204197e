// Chat templates: Jinja as Hugging Face compiles them (trim_blocks, lstrip_blocks, loop controls, {% generation %},
// tojson without HTML escapes, raise_exception, strftime_now; no access to the host), rendered with provenance: a
// render returns the text and which of its bytes came from which marked input.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/text.h"
#include "jinja/value.h"

namespace dml::jinja {

inline constexpr std::size_t kMaxSource = std::size_t{256} << 10;

/// The time that strftime_now() returns: 26 July 2024, the default date of Llama 3's template. Training data must not
/// depend on the day they were prepared; SOURCE_DATE_EPOCH (seconds since 1970) overrides it.
std::int64_t template_time();

struct RenderOptions {
  std::int64_t now = template_time();
  std::int64_t max_steps = 1'000'000;  // a step is an evaluated node or 256 bytes moved
  bool strict = false;                 // printing or testing an undefined value fails (jinja2.StrictUndefined)
};

struct RenderResult {
  std::string text;
  std::vector<Run> spans;                                       // bytes that came from marked inputs
  std::vector<std::pair<std::size_t, std::size_t>> generation;  // bytes inside of {% generation %}
  bool marks_lost = false;                                      // the origin of some bytes was lost in an operation
};

class Template {
 public:
  /// Parses a template. UserError "NAME:LINE:COLUMN: what" for an error in it, or when it is too long.
  Template(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// Renders the template; `context` is a dict of its variables. Thread-safe. UserError with the place of a failure.
  RenderResult render(const Value& context, const RenderOptions& options = {}) const;
  const std::string& source() const { return source_; }
  const std::string& name() const { return name_; }

 private:
  struct Tree;
  std::string source_, name_;
  std::unique_ptr<Tree> tree_;
};

}  // namespace dml::jinja
