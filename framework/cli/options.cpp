#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "cli/output.h"
#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "recipe/keys.h"

namespace dml {

struct Options::State {
  explicit State(std::string command) : app("", "dml " + command) {}
  CLI::App app;
  CommandPage page;
  std::vector<std::string> names;  // "--prompt"
  // Values are read here: CLI11 treats an empty one as none, and 010 as 8.
  std::map<std::string, Reader> readers;
  std::map<std::string, std::string> aliases;  // "-o": "--output"
  std::vector<Override>* overrides = nullptr;

  const std::string& full_name(const std::string& word) const {
    const auto alias = aliases.find(word);
    return alias == aliases.end() ? word : alias->second;
  }
};

namespace {

// An option of a command may have the name of a recipe key, which then only the recipe can set: --adapter names a
// directory. A value of such a key is a mistake, unless the option takes it as well or a file is called so.
void refuse_value_of_key(const std::string& command, const CommandOption& option, const std::string& value) {
  std::string key = option.name.substr(2);
  std::ranges::replace(key, '-', '_');
  const auto is_key = [&](const KeyHelp& k) { return k.name == key && std::ranges::count(k.values, value) > 0; };
  const bool known = std::ranges::any_of(
      key_sections(), [&](const KeySection& section) { return std::ranges::any_of(section.keys, is_key); });
  const bool taken =
      option.placeholder.find(value) != std::string::npos || option.help.find(value) != std::string::npos;
  if (!known || taken || file_exists(value)) return;
  throw UserError("{} {}: {} reads {} as {} ({}). '{}' is a value of the recipe's key '{}'; set that key in the recipe",
                  option.name, value, command, option.name, option.placeholder, option.help, value, key);
}

template <class T>
T parsed(const std::string& name, const std::string& text, const char* kind) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem == std::errc::result_out_of_range) throw UserError("--{}: {} is out of range", name, text);
  if (problem != std::errc{} || stop != end) throw UserError("--{} must be {}, is '{}'", name, kind, text);
  return value;
}

}  // namespace

Options::Options(std::string command, std::string usage, std::vector<std::string> examples)
    : state_(std::make_unique<State>(std::move(command))) {
  state_->page.usage = std::move(usage);
  state_->page.examples = std::move(examples);
  state_->app.set_help_flag();
  state_->app.allow_extras();
}
Options::~Options() = default;

void Options::about(std::string text) { state_->page.about = std::move(text); }

void Options::positional(const std::string& name, std::string& value, const std::string& help, bool required) {
  auto* option = state_->app.add_option(name, value);
  if (required) option->required();
  state_->page.words.push_back({name, "", help});
}

void Options::positionals(const std::string& name, std::vector<std::string>& values, const std::string& help,
                          bool required) {
  state_->app.add_option(name, values)->required(required);
  state_->page.words.push_back({name, "", help});
}

void Options::flag(const std::string& name, bool& value, const std::string& help) {
  state_->app.add_flag("--" + name, value);
  state_->names.push_back("--" + name);
  state_->page.options.push_back({"--" + name, "", help});
}

void Options::add(const std::string& name, const std::string& placeholder, const std::string& help, bool repeats,
                  Reader read) {
  const std::string option = "--" + name;
  state_->readers[option] = [option, repeats, may_be_empty = placeholder == "TEXT", read = std::move(read),
                             given = false](const std::string& text) mutable {
    if (given && !repeats) throw UserError("{} is given twice", option);
    if (text.empty() && !may_be_empty) throw UserError("{}: is empty", option);
    given = true;
    read(text);
  };
  state_->names.push_back(option);
  state_->page.options.push_back({option, placeholder, help});
}

void Options::text(const std::string& name, std::optional<std::string>& value, const std::string& help,
                   const std::string& placeholder) {
  add(name, placeholder, help, false, [&value](const std::string& text) { value = text; });
}

void Options::texts(const std::string& name, std::vector<std::string>& values, const std::string& help,
                    const std::string& placeholder) {
  add(name, placeholder, help, true, [&values](const std::string& text) { values.push_back(text); });
}

void Options::integer(const std::string& name, std::optional<std::int64_t>& value, const std::string& help) {
  add(name, "N", help, false,
      [&value, name](const std::string& text) { value = parsed<std::int64_t>(name, text, "a whole number"); });
}

void Options::number(const std::string& name, std::optional<double>& value, const std::string& help) {
  add(name, "X", help, false, [&value, name](const std::string& text) {
    value = parsed<double>(name, text, "a number");
    if (!std::isfinite(*value)) throw UserError("--{} must be a number, is '{}'", name, text);
  });
}

void Options::choice(const std::string& name, std::optional<std::string>& value, const std::vector<std::string>& words,
                     const std::string& help) {
  add_choice(name, words, help, [&value](const std::string& word) { value = word; });
}

void Options::add_choice(const std::string& name, const std::vector<std::string>& words, const std::string& help,
                         Reader take) {
  add(name, fmt::format("{}", fmt::join(words, "|")), help, false,
      [name, words, take = std::move(take)](const std::string& text) {
        if (std::ranges::find(words, text) == words.end())
          throw UserError("--{}: there is no '{}'{}", name, text, did_you_mean(text, words));
        take(text);
      });
}

void Options::values(const std::string& name, const std::vector<std::string>& values) {
  for (std::vector<CommandOption>* list : {&state_->page.words, &state_->page.options})
    for (CommandOption& option : *list)
      if (option.name == name || option.name == "--" + name) option.values = values;
}

void Options::alias(const std::string& word, const std::string& name) { state_->aliases[word] = "--" + name; }

void Options::take_overrides(std::vector<Override>& overrides) {
  state_->overrides = &overrides;
  state_->page.overrides = true;
}

std::size_t Options::leading(const std::vector<std::string>& words) const {
  const std::vector<CommandOption> known = page().options;
  std::size_t i = 0;
  for (; i < words.size() && words[i].starts_with("-"); ++i) {
    const auto option = std::ranges::find(known, state_->full_name(words[i]), &CommandOption::name);
    if (option != known.end() && !option->placeholder.empty()) ++i;
  }
  return std::min(i, words.size());
}

void Options::parse(const std::vector<std::string>& words) {
  State& s = *state_;
  // Options that are not the command's own are recipe keys: "--key value" or "--key=value".
  std::vector<std::string> own, keys;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (take_output_option(words, i)) continue;
    const std::string& word = s.full_name(words[i]);
    if (word.empty()) throw UserError("an argument is empty\nusage: dml {}", s.page.usage);
    std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || name == "--") {
      own.push_back(word);
    } else if (auto reader = s.readers.find(name); reader != s.readers.end()) {
      if (name == word && i + 1 == words.size()) throw UserError("{} needs a value\nusage: dml {}", name, s.page.usage);
      const std::string value = name == word ? words[++i] : word.substr(name.size() + 1);
      if (const auto option = std::ranges::find(s.page.options, name, &CommandOption::name); s.overrides)
        refuse_value_of_key(s.app.get_name(), *option, value);
      reader->second(value);
    } else if (std::ranges::find(s.names, name) != s.names.end()) {
      own.push_back(word);
    } else {
      if (auto near = closest(name, s.names);
          !s.overrides || (!near.empty() && closest(name.substr(2), dml::keys()).empty()))
        throw UserError("unknown option '{}'{}\nusage: dml {}", name, did_you_mean(name, s.names), s.page.usage);
      keys.push_back(word);
      if (name == word && i + 1 < words.size() && !words[i + 1].starts_with("--")) keys.push_back(words[++i]);
    }
  }
  std::ranges::reverse(own);  // CLI11 expects the arguments in reverse order
  try {
    s.app.parse(std::move(own));
  } catch (const CLI::ParseError& e) {
    throw UserError("{}\nusage: dml {}", e.what(), s.page.usage);
  }
  if (auto rest = s.app.remaining(); !rest.empty())
    throw UserError("unexpected argument '{}'\nusage: dml {}", rest[0], s.page.usage);
  if (s.overrides && !keys.empty()) *s.overrides = parse_overrides(keys);
}

std::int64_t within(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) throw UserError("--{}: {} is not between {} and {}", name, value, low, high);
  return value;
}

std::vector<int> number_list(const char* name, const std::string& list, int high) {
  std::vector<int> numbers;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    int number = 0;
    const auto [stop, problem] = std::from_chars(list.data() + at, list.data() + end, number);
    if (problem != std::errc{} || stop != list.data() + end || number < 1 || number > high)
      throw UserError("--{}: '{}' is not a list of numbers from 1 to {}, such as 2,8,64", name, list, high);
    numbers.push_back(number);
    at = end + 1;
  }
  return numbers;
}

void require_no_keys(const std::vector<Override>& overrides, std::string_view instead) {
  if (!overrides.empty())
    throw UserError("--{}: keys of a recipe go with a RECIPE, not with {}", overrides[0].key, instead);
}

CommandPage Options::page() const {
  CommandPage page = state_->page;
  for (const CommandOption& o : output_help()) page.options.push_back(o);
  return page;
}

}  // namespace dml
