#include "pipeline/init_data.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <map>

#include "core/closest.h"
#include "core/error.h"
#include "data/records.h"
#include "data/sources.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// In the order in which a column is preferred.
const Names kUser{"instruction", "question", "prompt", "query",   "user",     "input", "human",
                  "request",     "problem",  "frage",  "message", "question_text"};
const Names kAssistant{"output", "answer", "response", "completion", "reply", "assistant", "solution", "generation",
                       "target", "bot",    "gpt",      "antwort",    "answer_text"};
const Names kContext{"input", "context"};
const Names kSystem{"system", "system_prompt", "system_message"};
const Names kText{"text", "content", "body", "document", "article", "passage", "story"};
const Names kRoleKeys{"role", "from", "sender", "author", "speaker"};
const Names kContentKeys{"content", "value", "text", "message"};
const std::map<std::string, std::string> kRoles{
    {"user", "user"},           {"human", "user"},     {"prompter", "user"},     {"question", "user"},
    {"customer", "user"},       {"assistant", "assistant"}, {"gpt", "assistant"},     {"bot", "assistant"},
    {"model", "assistant"},     {"chatbot", "assistant"},   {"ai", "assistant"},      {"answer", "assistant"},
    {"agent", "assistant"},     {"system", "system"},  {"tool", "tool"},         {"function", "tool"},
    {"function_call", "assistant"}, {"observation", "tool"}, {"ipython", "tool"}};

constexpr std::size_t kReadBytes = std::size_t{256} << 20, kSampleRows = 2000;

std::string lower(std::string s) {
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}
// "Question Text" and "question-text" are the name question_text.
std::string plain_name(const std::string& column) {
  std::string out = lower(column);
  std::ranges::replace_if(out, [](char c) { return c == ' ' || c == '-' || c == '.'; }, '_');
  while (out.ends_with('_') || out.ends_with(':') || out.ends_with('?')) out.pop_back();
  return out;
}

// ---- files and rows

// How the lines of a text file are meant: prose in paragraphs is one document, long lines are one document each.
bool is_prose(const SourceFile& file) {
  RowReader reader(file);
  RawRow row;
  std::int64_t lines = 0, characters = 0, last = 0;
  while (lines < 2000 && reader.next(row)) {
    ++lines;
    characters += static_cast<std::int64_t>(row.text.size());
    last = row.line;
  }
  const std::int64_t blank = last - lines;  // the reader passes over blank lines
  return lines > 0 && (blank * 50 > lines || characters < 200 * lines);
}

std::vector<SourceFile> find_files(DatasetEntry& entry) {
  std::error_code error;
  if (fs::is_directory(entry.path, error)) {
    bool texts = true;
    try {
      for (auto& file : find_sources(entry)) texts = texts && file.form == RowForm::text;
    } catch (const UserError&) {  // there is nothing but Markdown, or nothing at all
    }
    if (texts) entry.ds_type = "document";
    return find_sources(entry);
  }
  std::vector<SourceFile> files = find_sources(entry);
  if (std::ranges::all_of(files, [](auto& f) { return f.form == RowForm::text && is_prose(f); })) {
    entry.ds_type = "document";
    files = find_sources(entry);
  }
  return files;
}

std::string describe_files(const std::string& path, const std::vector<SourceFile>& files) {
  std::string form = name_of(files[0].form);
  for (auto& f : files)
    if (name_of(f.form) != form) form = "files of several kinds";
  if (files[0].delimiter == ';') form += " with semicolons between the columns";
  if (files[0].delimiter == '\t') form += " with tabs between the columns";
  if (files.size() == 1)
    return fmt::format("{}: {}", path, files[0].form == RowForm::document ? "text, one document" : form);
  return fmt::format("{}: {} files, {}", path, files.size(),
                     files[0].form == RowForm::document ? "each a document" : form);
}

// Reads up to kReadBytes; of these rows every n-th is kept, n growing so that at most kSampleRows are.
void sample_rows(const std::vector<SourceFile>& files, DataFacts& facts) {
  std::error_code error;
  for (auto& f : files) facts.bytes += static_cast<std::size_t>(fs::file_size(f.path, error));
  std::size_t read = 0;
  std::int64_t stride = 1, bad = 0;
  std::string first_bad;
  for (auto& file : files) {
    if (read >= kReadBytes) break;
    RowReader reader(file);
    RawRow row;
    while (read < kReadBytes && reader.next(row)) {
      read += row.text.size() + 1;
      if (facts.rows++ % stride != 0) continue;
      Json record;
      try {
        reader.parse(row, record);
      } catch (const UserError& e) {
        if (++bad == 1) first_bad = e.what();
        continue;
      }
      facts.sample.push_back(std::move(record));
      if (facts.sample.size() < kSampleRows) continue;
      std::vector<Json> half;
      for (std::size_t i = 0; i < facts.sample.size(); i += 2) half.push_back(std::move(facts.sample[i]));
      facts.sample = std::move(half);
      stride *= 2;
    }
  }
  if (read >= kReadBytes && facts.bytes > read) {
    facts.rows = static_cast<std::int64_t>(static_cast<double>(facts.rows) * static_cast<double>(facts.bytes) /
                                           static_cast<double>(read));
    facts.rows_estimated = true;
  }
  if (facts.sample.empty()) throw UserError("{}", first_bad.empty() ? files[0].path + ": no rows" : first_bad);
  if (bad > 0) facts.notes.push_back(fmt::format("{} of the rows looked at cannot be read, the first: {}", bad, first_bad));
}

// ---- columns

struct Column {
  std::string name, plain;
  std::int64_t texts = 0, filled = 0, lists = 0, booleans = 0;
};

std::vector<Column> columns_of(const std::vector<Json>& rows) {
  std::vector<Column> out;
  for (const Json& row : rows)
    for (auto& [key, value] : row.items()) {
      auto column = std::ranges::find(out, key, &Column::name);
      if (column == out.end()) column = out.insert(out.end(), Column{key, plain_name(key)});
      column->texts += value.is_string();
      column->filled += value.is_string() && value.get_ref<const std::string&>().find_first_not_of(" \t\r\n") != std::string::npos;
      column->lists += value.is_array() && !value.empty() && value[0].is_object();
      column->booleans += value.is_boolean();
    }
  return out;
}

std::string shown_columns(const std::vector<Column>& columns) {
  Names names;
  for (auto& c : columns) names.push_back(c.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

class Finder {
 public:
  Finder(DataFacts& facts, const ColumnHints& hints) : facts_(facts), hints_(hints), columns_(columns_of(facts.sample)) {}

  void find() {
    if (!hints_.empty()) return take_hints();
    if (chatgpt() || tokens() || preference() || conversation() || segments() || question_and_answer() || text() ||
        by_count())
      return;
    throw UserError(
        "{}: cannot tell what its columns mean: {}; name them with --user COLUMN --assistant COLUMN, or --text COLUMN",
        facts_.entry.path, shown_columns(columns_));
  }

 private:
  const Column* column(const std::string& plain) const {
    for (auto& c : columns_)
      if (c.plain == plain) return &c;
    return nullptr;
  }
  /// The first of these names that is a column of texts.
  const Column* first_of(const Names& names, const Column* but = nullptr) const {
    for (auto& name : names)
      if (const Column* c = column(name); c && c != but && c->filled > 0) return c;
    return nullptr;
  }
  std::string exact(const std::string& name) const {
    for (auto& c : columns_)
      if (c.name == name) return name;
    for (auto& c : columns_)
      if (c.plain == plain_name(name)) return c.name;
    Names names;
    for (auto& c : columns_) names.push_back(c.name);
    throw UserError("{}: there is no column '{}'{}", facts_.entry.path, name, did_you_mean(name, names));
  }

  void take_hints() {
    if (hints_.text) {
      if (!hints_.user.empty() || hints_.assistant || hints_.system)
        throw UserError("--text is for documents; leave it out, or leave out --user, --assistant and --system");
      return documents(exact(*hints_.text));
    }
    if (hints_.user.empty() || !hints_.assistant) throw UserError("--user and --assistant are needed together");
    auto& columns = facts_.entry.message_columns;
    for (auto& name : hints_.user) columns["user"].push_back(exact(name));
    columns["assistant"] = {exact(*hints_.assistant)};
    if (hints_.system) columns["system"] = {exact(*hints_.system)};
    by_columns();
  }

  bool chatgpt() {
    for (const Json& row : facts_.sample)
      if (!row.contains("mapping") || !row["mapping"].is_object()) return false;
    facts_.entry.type.name = "chat_template.chatgpt";
    facts_.contents = "conversations exported from ChatGPT";
    return true;
  }

  bool tokens() {
    for (const Json& row : facts_.sample)
      if (!row.contains("input_ids") || !row["input_ids"].is_array()) return false;
    facts_.kind = DataKind::tokens;
    facts_.contents = "rows that are token ids already";
    return true;
  }

  bool preference() {
    const Column *chosen = column("chosen"), *rejected = column("rejected"), *label = column("label");
    const bool kto = label && label->booleans > 0 && first_of(kAssistant);
    if ((!chosen || !rejected) && !kto) return false;
    if (!hints_.chosen_only)
      throw UserError(
          "{}: this is preference data (columns {}), which init writes no recipe for: examples/{}.yml is one, with rl: {}, and "
          "docs/preferences.md explains it. To train on {} answers alone, as ordinary examples: the same command with "
          "--chosen-only",
          facts_.entry.path, shown_columns(columns_), kto ? "kto" : "dpo", kto ? "kto" : "dpo",
          kto ? "the good" : "the chosen");
    if (kto)
      throw UserError(
          "{}: --chosen-only needs a column of chosen answers; keep the rows whose '{}' is true in a file of their own",
          facts_.entry.path, label->name);
    if (chosen->lists > 0) {
      facts_.notes.emplace_back("preference data: only the chosen conversations are trained on");
      return messages_in(chosen->name);
    }
    const Column* user = first_of(kUser);
    if (!user || chosen->filled == 0)
      throw UserError("{}: cannot tell which column holds the prompt: {}; name it: --user COLUMN --assistant {}",
                      facts_.entry.path, shown_columns(columns_), chosen->name);
    facts_.notes.emplace_back("preference data: only the chosen answers are trained on");
    facts_.entry.message_columns = {{"user", {user->name}}, {"assistant", {chosen->name}}};
    by_columns();
    return true;
  }

  bool conversation() {
    for (const char* usual : {"messages", "conversations", "conversation", "chat_messages", "dialog", "dialogue", "turns", "chat"})
      if (const Column* c = column(usual); c && c->lists > 0 && messages_in(c->name)) return true;
    for (auto& c : columns_)
      if (c.lists > 0 && messages_in(c.name)) return true;
    return false;
  }

  // A column of lists of messages; false when its elements are something else.
  bool messages_in(const std::string& name) {
    std::string role, content;
    std::map<std::string, std::int64_t> spellings;
    for (const Json& row : facts_.sample) {
      auto list = row.find(name);
      if (list == row.end() || !list->is_array()) continue;
      for (const Json& message : *list) {
        if (!message.is_object()) return false;
        for (auto& key : kRoleKeys)
          if (role.empty() && message.contains(key) && message[key].is_string()) role = key;
        for (auto& key : kContentKeys)
          if (content.empty() && message.contains(key) && message[key].is_string()) content = key;
        if (!role.empty() && message.contains(role) && message[role].is_string())
          ++spellings[message[role].get<std::string>()];
      }
    }
    for (auto& key : kContentKeys)  // parts in a list, where there is no plain text
      for (const Json& row : facts_.sample)
        if (content.empty() && row.contains(name) && row[name].is_array() && !row[name].empty() &&
            row[name][0].contains(key) && row[name][0][key].is_array())
          content = key;
    if (role.empty() || content.empty()) return false;
    DatasetEntry& e = facts_.entry;
    e.type.name = "chat_template";
    e.field_messages = name;
    e.message_property_mappings = {{"role", role}, {"content", content}};
    take_roles(spellings);
    facts_.contents = fmt::format("conversations in '{}', messages of {} and {}", name, role, content);
    return true;
  }

  void take_roles(const std::map<std::string, std::int64_t>& spellings) {
    std::map<std::string, Names> roles;
    bool usual = true;
    Names unknown;
    for (auto& [spelling, count] : spellings) {
      auto known = kRoles.find(lower(spelling));
      if (known == kRoles.end()) {
        unknown.push_back(spelling);
        continue;
      }
      roles[known->second].push_back(spelling);
      usual = usual && (spelling == known->second || spelling == "human" || spelling == "gpt");
    }
    if (!roles.contains("assistant"))
      throw UserError("{}: no message has the role 'assistant'; the roles are {}. Rename the role of the answers to 'assistant'",
                      facts_.entry.path, shown_roles(spellings));
    if (!unknown.empty())
      facts_.notes.push_back(fmt::format("unknown role{} {}: read, never trained on, if the chat template takes it",
                                         unknown.size() == 1 ? "" : "s", fmt::join(unknown, ", ")));
    if (!usual) facts_.entry.roles = roles;
  }
  static std::string shown_roles(const std::map<std::string, std::int64_t>& spellings) {
    Names names;
    for (auto& [spelling, count] : spellings) names.push_back(spelling);
    return fmt::format("{}", fmt::join(names, ", "));
  }

  bool segments() {
    const Column* c = column("segments");
    if (!c || c->lists == 0) return false;
    facts_.entry.type.name = "input_output";
    facts_.contents = "segments of text, each trained on or only read";
    return true;
  }

  bool question_and_answer() {
    const Column* assistant = first_of(kAssistant);
    const Column* user = assistant ? first_of(kUser, assistant) : nullptr;
    if (!user) return false;
    auto& columns = facts_.entry.message_columns;
    columns["user"] = {user->name};
    if (user->plain == "instruction" || user->plain == "question")
      if (const Column* context = first_of(kContext, assistant); context && context != user)
        columns["user"].push_back(context->name);
    columns["assistant"] = {assistant->name};
    if (const Column* system = first_of(kSystem)) columns["system"] = {system->name};
    by_columns();
    return true;
  }

  void by_columns() {
    facts_.entry.type.name = "chat_template";
    Names shown;
    for (const char* role : {"system", "user", "assistant"})
      if (auto c = facts_.entry.message_columns.find(role); c != facts_.entry.message_columns.end())
        shown.push_back(fmt::format("{}: {}", role, fmt::join(c->second, " + ")));
    facts_.contents = fmt::format("{}", fmt::join(shown, ", "));
    std::int64_t empty = 0;
    for (const Json& row : facts_.sample) {
      auto blank = [&](const std::string& name) {
        auto it = row.find(name);
        return it == row.end() || it->is_null() ||
               (it->is_string() && it->get_ref<const std::string&>().find_first_not_of(" \t\r\n") == std::string::npos);
      };
      empty += blank(facts_.entry.message_columns["assistant"][0]) || blank(facts_.entry.message_columns["user"][0]);
    }
    if (empty > 0)
      facts_.notes.push_back(fmt::format("{} of {} rows looked at have no question or no answer; they are left out",
                                         empty, facts_.sample.size()));
  }

  bool text() {
    const Column* c = first_of(kText);
    if (!c) return false;
    documents(c->name);
    return true;
  }

  void documents(const std::string& name) {
    facts_.kind = DataKind::documents;
    facts_.entry.type.name = "completion";
    if (name != "text") facts_.entry.field = name;
    facts_.contents = facts_.entry.ds_type == "document" ? "documents" : fmt::format("documents in '{}'", name);
  }

  // Two columns of texts, whatever they are called, are question and answer; one is text.
  bool by_count() {
    std::vector<const Column*> texts;
    for (auto& c : columns_)
      if (c.filled * 2 > static_cast<std::int64_t>(facts_.sample.size())) texts.push_back(&c);
    if (texts.size() == 1) {
      documents(texts[0]->name);
    } else if (texts.size() == 2) {
      facts_.entry.message_columns = {{"user", {texts[0]->name}}, {"assistant", {texts[1]->name}}};
      by_columns();
    } else {
      return false;
    }
    facts_.notes.emplace_back(
        "the columns' names say nothing of their use; if this guess is wrong: --user COLUMN --assistant COLUMN, or --text "
        "COLUMN");
    return true;
  }

  DataFacts& facts_;
  const ColumnHints& hints_;
  std::vector<Column> columns_;
};

}  // namespace

DataFacts look_at_data(const std::string& path, const ColumnHints& hints) {
  DataFacts facts;
  facts.entry.path = path;
  std::vector<SourceFile> files = find_files(facts.entry);
  facts.files = describe_files(path, files);
  sample_rows(files, facts);
  Finder(facts, hints).find();
  return facts;
}

}  // namespace dml
