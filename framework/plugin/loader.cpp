#include "plugin/loader.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "core/files.h"
#include "dist/strategy.h"
#include "evaluate/checks.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "plugin/adapters.h"
#include "plugin/tables.h"
#include "prompt/strategy.h"
#include "train/objective_rows.h"

namespace dml {
namespace {

/// All names of optimizers.
std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& row : optimizers().rows()) {
    names.push_back(row.name);
    for (const auto& spelling : row.make.spellings) names.push_back(spelling.name);
  }
  return names;
}

/// Collects rows; they are added to the tables once all of them are valid.
class Staging : public plugin::Registry {
 public:
  explicit Staging(std::string plugin) : plugin_(std::move(plugin)) {}

  void add(plugin::Row<plugin::PromptFormat> row) override {
    stage("prompt format", std::move(row), prompt_strategies().names());
  }
  void add(plugin::Row<plugin::Optimizer> row) override {
    check_settings(row);
    stage("optimizer", std::move(row), optimizer_names());
  }
  void add(plugin::Row<plugin::Schedule> row) override { stage("schedule", std::move(row), schedules().names()); }
  void add(plugin::Row<plugin::Objective> row) override { stage("objective", std::move(row), objectives().names()); }
  void add(plugin::Row<plugin::AnswerCheck> row) override { stage("check", std::move(row), checks().names()); }
  void add(plugin::Row<plugin::Evaluator> row) override {
    stage("evaluator", std::move(row), plugin_evaluators().names());
  }
  void add(plugin::Row<plugin::Observer> row) override {
    stage("observer", std::move(row), plugin_observers().names());
  }
  void add(plugin::Row<plugin::Strategy> row) override { stage("strategy", std::move(row), strategies().names()); }

  void commit() const {
    for (auto& row : rows_) row();
  }
  const std::string& summary() const { return summary_; }

 private:
  template <class Thing>
  void stage(const std::string& kind, plugin::Row<Thing> row, const std::vector<std::string>& known) {
    if (row.name.empty()) throw UserError("it adds a row without a name: {}", kind);
    if (!row.make) throw UserError("its {} '{}' has no factory", kind, row.name);
    std::vector<std::string> names = row.spellings;
    names.insert(names.begin(), row.name);
    for (const std::string& name : names) {
      if (std::find(known.begin(), known.end(), name) != known.end())
        throw UserError("the {} '{}' exists already{}", kind, name, owner(kind, name));
      if (!mine_.insert({kind, name}).second) throw UserError("it adds the {} '{}' twice", kind, name);
      owners()[{kind, name}] = plugin_;
    }
    summary_ += fmt::format("{}{} {}", summary_.empty() ? "" : ", ", kind, row.name);
    Origin origin{plugin_, fmt::format("{} '{}'", kind, row.name)};
    rows_.push_back([origin = std::move(origin), row = std::move(row)] { add_row(origin, row); });
  }

  using Names = std::map<std::pair<std::string, std::string>, std::string>;
  static Names& owners() {
    static Names all;
    return all;
  }
  static std::string owner(const std::string& kind, const std::string& name) {
    const auto found = owners().find({kind, name});
    return found == owners().end() ? " in dml; choose another name" : fmt::format(": {} has added it", found->second);
  }

  std::string plugin_, summary_;
  std::vector<std::function<void()>> rows_;
  std::set<std::pair<std::string, std::string>> mine_;
};

std::string why_not_loaded(const std::string& path) {
  std::string why = dlerror();
  if (const std::string again = path + ": "; why.starts_with(again)) why.erase(0, again.size());
  return why;
}

// UserError for a shared library whose end is missing: dlopen() maps what the headers name, and reading beyond the end
// of the file would end the process with SIGBUS. Other files than ELF are left to dlopen().
void require_complete(const std::string& real, const std::string& path) {
  std::error_code error;
  Elf64_Ehdr header;
  if (!std::filesystem::is_regular_file(real, error) || std::filesystem::file_size(real) < sizeof header) return;
  const MappedFile file(real);
  const std::span<const std::byte> bytes = file.bytes();
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return;
  const auto inside = [&](std::uint64_t offset, std::uint64_t length) {
    return offset <= bytes.size() && length <= bytes.size() - offset;
  };
  bool whole = inside(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)) &&
               inside(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize);
  for (std::size_t i = 0; whole && i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    whole = inside(segment.p_offset, segment.p_filesz);
  }
  if (!whole)
    throw UserError("{}: the file ends before its headers say (it has {} bytes); build or copy it again", path,
                    bytes.size());
}

const plugin::Manifest& manifest_of(void* library, const std::string& path) {
  const auto* found = static_cast<const plugin::Manifest*>(dlsym(library, "dml_plugin"));
  if (!found) throw UserError("{}: not a dml plug-in: it has no DML_PLUGIN(…)", path);
  if (found->abi != DML_PLUGIN_ABI)
    throw UserError("{}: was built for version {} of the plug-in interface, this dml has version {}; build it again",
                    path, found->abi, DML_PLUGIN_ABI);
  if (const std::string build = DML_PLUGIN_BUILD; found->build != build)
    throw UserError("{}: was built with {}, this dml with {}; build it again", path, found->build, build);
  return *found;
}

}  // namespace

std::string load_plugin(const std::string& path) {
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  if (error) throw UserError("{}: {}", path, error.message());
  static std::map<std::string, std::string> loaded;
  if (const auto before = loaded.find(real); before != loaded.end()) return before->second;
  require_complete(real, path);
  void* library = dlopen(real.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw UserError("{}: cannot be loaded: {}", path, why_not_loaded(real));
  const plugin::Manifest& manifest = manifest_of(library, path);
  Staging staging(fmt::format("{} {} ({})", manifest.name, manifest.version, path));
  try {
    manifest.add_rows(staging);
  } catch (const std::exception& failure) {
    throw UserError("{}: {}", path, one_line(failure.what()));
  } catch (...) {
    throw UserError("{}: adding its rows failed with an exception that is not a std::exception", path);
  }
  staging.commit();
  return loaded[real] = fmt::format("{} {}: {}", manifest.name, manifest.version,
                                    staging.summary().empty() ? "no rows" : staging.summary());
}

}  // namespace dml
