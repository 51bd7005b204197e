#include "exchange/ollama_template.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/text.h"
#include "jinja/template.h"
#include "jinja/value.h"

namespace dml {
namespace {

struct Message {
  std::string_view role, content;
};
using Messages = std::vector<Message>;

constexpr Message kSystem{"system", "SampleOfSystem"}, kQuestion{"user", "SampleQuestion"},
    kAnswer{"assistant", "SampleAnswer"}, kSecond{"user", "SecondQuestion"}, kReply{"assistant", "SecondAnswer"},
    kThird{"user", "ThirdQuestion"};

class Renderer {
 public:
  Renderer(const std::string& source, std::string bos, std::string eos)
      : template_(source, "the chat template"), bos_(std::move(bos)), eos_(std::move(eos)) {}

  // Empty if the template refuses the messages.
  std::optional<std::string> text(const Messages& messages, bool asks_for_answer) const {
    Json list = Json::array();
    for (const Message& m : messages) list.push_back({{"role", m.role}, {"content", m.content}});
    const Json variables{{"messages", std::move(list)},
                         {"add_generation_prompt", asks_for_answer},
                         {"bos_token", ""},
                         {"eos_token", eos_}};
    try {
      std::string out = template_.render(jinja::from_json(variables)).text;
      if (!bos_.empty() && out.starts_with(bos_)) out.erase(0, bos_.size());
      return out;
    } catch (const UserError&) {
      return {};
    }
  }

  // The text before, between and after the contents; empty if the contents do not occur in order.
  std::vector<std::string> around(const Messages& messages, bool asks_for_answer = true) const {
    const std::optional<std::string> all = text(messages, asks_for_answer);
    if (!all) return {};
    std::vector<std::string> out;
    std::size_t from = 0;
    for (const Message& m : messages) {
      const std::size_t at = all->find(m.content, from);
      if (at == all->npos) return {};
      out.push_back(all->substr(from, at - from));
      from = at + m.content.size();
    }
    out.push_back(all->substr(from));
    return out;
  }

 private:
  jinja::Template template_;
  std::string bos_, eos_;
};

// The text around messages, in a template where it depends only on the role and position of a message.
struct Pieces {
  std::string start, ask;  // before the first question; after the last one
  std::optional<std::string> before_system, after_system;
  std::optional<std::string> answer,
      next;  // after a question that has an answer; after an answer that another question follows

  std::string compose(const Messages& messages) const {
    const bool system = messages.front().role == "system";
    std::string out = system ? *before_system : start;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      out += messages[i].content;
      if (messages[i].role == "system") out += *after_system;
      else if (messages[i].role == "assistant") out += *next;
      else out += i + 1 == messages.size() ? ask : *answer;
    }
    return out;
  }
};

std::optional<Pieces> pieces_of(const Renderer& renderer) {
  const std::vector<std::string> one = renderer.around({kQuestion}),
                                 several = renderer.around({kQuestion, kAnswer, kSecond}),
                                 system = renderer.around({kSystem, kQuestion});
  if (one.empty()) return {};
  Pieces out;
  out.start = one[0], out.ask = one[1];
  const bool takes_system = !system.empty() && system[2] == out.ask;
  if (takes_system) out.before_system = system[0], out.after_system = system[1];
  if (several.empty()) return out;
  if (!system.empty() && !takes_system) return {};
  out.answer = several[1], out.next = several[2];
  Messages all{kQuestion, kAnswer, kSecond, kReply, kThird};
  if (renderer.text(all, true) != out.compose(all)) return {};
  if (!out.before_system) return out;
  all.insert(all.begin(), kSystem);
  if (renderer.text(all, true) != out.compose(all)) return {};
  return out;
}

// A template of a single turn: ollama provides the system message and the last question as variables.
std::string of_one_turn(const Pieces& p) {
  const std::string start = p.before_system ? "{{ if .System }}" + *p.before_system + "{{ .System }}" +
                                                  *p.after_system + "{{ else }}" + p.start + "{{ end }}"
                                            : p.start;
  return start + "{{ .Prompt }}" + p.ask;
}

std::string of_messages(const Pieces& p) {
  const std::string each = "{{ range $i, $m := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 }}";
  const std::string turns = "{{ if eq .Role \"user\" }}{{ if $last }}" + p.ask + "{{ else }}" + *p.answer +
                            "{{ end }}{{ else if not $last }}" + *p.next + "{{ end }}";
  if (!p.before_system)
    return p.start + each + "{{ if ne .Role \"system\" }}{{ .Content }}" + turns + "{{ end }}{{ end }}";
  return each + "{{ if eq $i 0 }}{{ if eq .Role \"system\" }}" + *p.before_system + "{{ else }}" + p.start +
         "{{ end }}{{ end }}{{ .Content }}{{ if eq .Role \"system\" }}" + *p.after_system + "{{ else }}" + turns +
         "{{ end }}{{ end }}";
}

// The text after an answer, whether or not another question follows.
std::string end_of_answer(const Renderer& renderer, const Pieces& p) {
  const std::vector<std::string> last = renderer.around({kQuestion, kAnswer}, false);
  if (last.empty()) return "";
  std::string_view end = last[2];
  if (p.next) end = end.substr(0, static_cast<std::size_t>(std::ranges::mismatch(end, *p.next).in1 - end.begin()));
  if (const std::size_t open = end.rfind('<'); open != end.npos && end.find('>', open) == end.npos)
    end = end.substr(0, open);  // two tokens that begin alike
  return std::string(trim(end));
}

// Whether the text means itself in a template between triple quotes.
bool is_literal(const std::string& text) { return text.find("{{") == text.npos && text.find("\"\"\"") == text.npos; }

}  // namespace

std::optional<OllamaTemplate> ollama_template(const std::string& jinja, const std::string& bos,
                                              const std::string& eos) {
  try {
    const Renderer renderer(jinja, bos, eos);
    const std::optional<Pieces> p = pieces_of(renderer);
    if (!p) return {};
    for (const std::string& text : {p->start, p->ask, p->before_system.value_or(""), p->after_system.value_or(""),
                                    p->answer.value_or(""), p->next.value_or("")})
      if (!is_literal(text)) return {};
    return OllamaTemplate{p->answer ? of_messages(*p) : of_one_turn(*p), end_of_answer(renderer, *p)};
  } catch (const UserError&) {  // not a template
    return {};
  }
}

}  // namespace dml
