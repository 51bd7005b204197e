#include "cli/output.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "pipeline/input_digests.h"

namespace dml {
namespace {

struct OutputOptions {
  std::vector<std::string> words;
  bool verbose = false;
  ProgressMode progress = ProgressMode::automatic;
};
OutputOptions output_settings;

ProgressMode parse_progress_mode(const std::string& text) {
  if (text == "auto") return ProgressMode::automatic;
  if (text == "bar") return ProgressMode::bar;
  if (text == "plain") return ProgressMode::plain;
  if (text == "none") return ProgressMode::none;
  const std::vector<std::string> modes{"auto", "bar", "plain", "none"};
  throw UserError("--progress: there is no mode '{}'{}", text, did_you_mean(text, modes));
}

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  throw IoError("stdout", "cannot write");
}

namespace {

// It would only be noticed when the finished file is moved into place.
void require_file_name(std::string_view option, const std::string& path) {
  std::error_code unreadable;
  if (path.ends_with('/') || std::filesystem::is_directory(path, unreadable))
    throw UserError("{}: {} is a folder; name a file in it", option, path);
}

}  // namespace

void require_free_output(std::string_view option, const std::string& output, const std::vector<std::string>& read,
                         const RecipeFile* recipe) {
  require_file_name(option, output);
  if (!file_exists(output)) return;
  require_not_an_input(option, output, read);
  if (recipe) require_not_an_input(option, output, input_files(*recipe));
}

void require_place_of_page(std::string_view option, const std::string& path) {
  require_file_name(option, path);
  std::error_code error;
  const std::string ending = std::filesystem::path(path).extension().string();
  if (std::filesystem::is_regular_file(path, error) && ending != ".html" && ending != ".htm")
    throw UserError("{}: {} exists and is not an .html file; choose another name", option, path);
}

void require_name_of_format(std::string_view option, const std::string& output, bool gguf) {
  const bool named = output.ends_with(".gguf");
  if (gguf && !named)
    throw UserError("{}: {} is not the name of a GGUF file; name one that ends in .gguf", option, output);
  if (!gguf && named)
    throw UserError("{}: {} is the name of a GGUF file; add --format gguf, or name a directory", option, output);
}

void show_notes(const RecipeFile& file, NoteOptions options) {
  const bool fold = options.brief && !output_settings.verbose && file.notices.size() > 1;
  if (fold)
    log_info("note: {} keys were translated or have no effect; 'dml validate {}' lists them", file.notices.size(),
             file.path);
  for (auto& line : file.notices)  // settings without effect are always listed
    if (!fold || line.starts_with("not done")) log_info("note: {}", line);
  for (auto& line : file.warnings) log_warning("{}", line);
  if (options.missing)
    for (const Problem& problem : file.missing) log_warning("{}", problem.line());
}

bool take_output_option(const std::vector<std::string>& words, std::size_t& i) {
  const std::string& word = words[i];
  if (word == "--quiet" || word == "-q") {
    set_log_level(LogLevel::warning);
    output_settings.progress = ProgressMode::silent;
    output_settings.words.push_back("--quiet");
  } else if (word == "--verbose" || word == "-v") {
    set_log_level(LogLevel::debug);
    output_settings.verbose = true;
    output_settings.words.push_back("--verbose");
  } else if (word == "--progress" || word.starts_with("--progress=")) {
    if (word == "--progress" && i + 1 == words.size())
      throw UserError("--progress needs a value: auto, bar, plain or none");
    const std::string mode = word == "--progress" ? words[++i] : word.substr(word.find('=') + 1);
    output_settings.progress = parse_progress_mode(mode);
    output_settings.words.push_back("--progress=" + mode);
  } else {
    return false;
  }
  return true;
}

const std::vector<std::string>& output_options() { return output_settings.words; }
ProgressMode progress_mode() { return output_settings.progress; }

std::vector<CommandOption> output_help() {
  return {{"--quiet", "", "print only warnings, errors and results"},
          {"--verbose", "", "more details about the run"},
          {"--progress", "auto|bar|plain|none", "how progress is shown; plain: lines, at least one every 30 s"}};
}

}  // namespace dml
