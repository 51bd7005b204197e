// Parser of a command's arguments: its flags and options, positional arguments, and (for commands that read a recipe)
// overrides of recipe keys. Unknown options are errors with the nearest name; nothing is silently passed on.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/page.h"
#include "recipe/recipe.h"

namespace dml {

class Options {
 public:
  /// `usage`: shown with errors, without "dml ". An example is a command line, followed by two or more spaces and what
  /// it does.
  Options(std::string command, std::string usage, std::vector<std::string> examples);
  ~Options();

  /// The paragraph of the manual page: what the command reads, does and writes.
  void about(std::string text);
  void positional(const std::string& name, std::string& value, const std::string& help, bool required = true);
  /// All remaining arguments; at least one where they are required.
  void positionals(const std::string& name, std::vector<std::string>& values, const std::string& help,
                   bool required = true);
  void flag(const std::string& name, bool& value, const std::string& help);
  /// Help pages show `placeholder` as the value, and shells complete it accordingly (see value_hint()). Only a TEXT may
  /// be empty: an empty file or name comes from a shell variable that is not set.
  void text(const std::string& name, std::optional<std::string>& value, const std::string& help,
            const std::string& placeholder = "TEXT");
  /// May be given several times.
  void texts(const std::string& name, std::vector<std::string>& values, const std::string& help,
             const std::string& placeholder = "TEXT");
  /// A decimal number.
  void integer(const std::string& name, std::optional<std::int64_t>& value, const std::string& help);
  void number(const std::string& name, std::optional<double>& value, const std::string& help);
  /// One of several words, which are its placeholder.
  void choice(const std::string& name, std::optional<std::string>& value, const std::vector<std::string>& words,
              const std::string& help);
  /// The same, with a value for each word.
  template <class T>
  void choice(const std::string& name, std::optional<T>& value,
              const std::vector<std::pair<std::string, T>>& words_and_values, const std::string& help) {
    std::vector<std::string> words;
    for (const auto& row : words_and_values) words.push_back(row.first);
    add_choice(name, words, help, [&value, words_and_values](const std::string& word) {
      value = std::ranges::find(words_and_values, word, &std::pair<std::string, T>::first)->second;
    });
  }
  /// The values that shells offer for an option or a positional argument whose placeholder does not spell them.
  void values(const std::string& name, const std::vector<std::string>& values);
  /// Another spelling of an option, such as "-o" of "output".
  void alias(const std::string& word, const std::string& name);
  /// Treats every other option as a recipe key.
  void take_overrides(std::vector<Override>& overrides);

  /// The number of arguments before the first that is neither an option nor the value of one.
  std::size_t leading(const std::vector<std::string>& words) const;
  /// Parses the arguments. UserError.
  void parse(const std::vector<std::string>& words);
  /// The page for help, manual page and completions.
  CommandPage page() const;

 private:
  using Reader = std::function<void(const std::string&)>;
  void add_choice(const std::string& name, const std::vector<std::string>& words, const std::string& help, Reader take);
  void add(const std::string& name, const std::string& placeholder, const std::string& help, bool repeats, Reader read);

  struct State;
  std::unique_ptr<State> state_;
};

/// The value of an option. UserError unless it is from `low` to `high`.
std::int64_t within(const char* name, std::int64_t value, std::int64_t low, std::int64_t high);
/// The value of an option that is a list such as "2,8,64", of numbers from 1 to `high`. UserError.
std::vector<int> number_list(const char* name, const std::string& list, int high);

/// UserError if keys of a recipe were given to a command that reads no recipe but `instead`.
void require_no_keys(const std::vector<Override>& overrides, std::string_view instead);

}  // namespace dml
