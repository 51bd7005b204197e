#include "jinja/template.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "core/utf8.h"
#include "jinja/interpreter.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"

namespace dml::jinja {

struct Template::Tree {
  Body body;
};

std::int64_t template_time() {
  std::int64_t seconds = 1721952000;  // 2024-07-26
  if (const char* epoch = std::getenv("SOURCE_DATE_EPOCH")) std::from_chars(epoch, epoch + std::strlen(epoch), seconds);
  return seconds;
}

Template::Template(std::string_view source, std::string name)
    : name_(std::move(name)), tree_(std::make_unique<Tree>()) {
  if (source.size() > kMaxSource)
    throw UserError("{}: a chat template has at most {} KiB, this one has {}", name_, kMaxSource >> 10,
                    source.size() >> 10);
  if (const std::size_t bad = find_invalid_utf8(source); bad != std::string_view::npos)
    fail_at(name_, source, bad, "this is not UTF-8");
  source_ = normalize_newlines(source, true);
  tree_->body = parse_body(source_, name_);
}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

RenderResult Template::render(const Value& context, const RenderOptions& options) const {
  Interpreter interpreter(source_, name_, context, options);
  const Text text = interpreter.run(tree_->body);
  RenderResult result;
  result.text = text.str();
  result.marks_lost = interpreter.marks_lost();
  for (Run r : text.runs()) {
    if (r.mark & kGenerated) {
      if (!result.generation.empty() && result.generation.back().second == r.begin)
        result.generation.back().second = r.end;
      else result.generation.emplace_back(r.begin, r.end);
    }
    r.mark &= ~kGenerated;
    if (r.mark == 0) continue;
    if (!result.spans.empty() && result.spans.back().end == r.begin && result.spans.back().mark == r.mark)
      result.spans.back().end = r.end;
    else result.spans.push_back(r);
  }
  return result;
}

}  // namespace dml::jinja
