#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>

namespace dml {

struct LineEditor::State {
  EditLine* editor = nullptr;  // null: not on a terminal
  History* history = nullptr;
  std::string prompt;

  static char* prompt_of(EditLine* editor) {
    State* state = nullptr;
    el_get(editor, EL_CLIENTDATA, &state);
    return state->prompt.data();
  }
};

LineEditor::LineEditor() : state_(std::make_unique<State>()) {
  if (isatty(STDIN_FILENO) != 1) return;
  // The editor counts characters by the locale; number formatting is not affected.
  const char* encoding = std::setlocale(LC_CTYPE, "");
  if (!encoding || std::string(encoding) == "C" || std::string(encoding) == "POSIX")
    std::setlocale(LC_CTYPE, "C.UTF-8");
  state_->editor = el_init("dml", stdin, stderr, stderr);
  state_->history = history_init();
  if (!state_->editor || !state_->history) return;
  HistEvent event;
  history(state_->history, &event, H_SETSIZE, 1000);
  history(state_->history, &event, H_SETUNIQUE, 1);
  el_set(state_->editor, EL_CLIENTDATA, state_.get());
  el_set(state_->editor, EL_PROMPT, &State::prompt_of);
  el_set(state_->editor, EL_EDITOR, "emacs");
  el_set(state_->editor, EL_HIST, history, state_->history);
  el_source(state_->editor, nullptr);  // the user's ~/.editrc
}

LineEditor::~LineEditor() {
  if (state_->history) history_end(state_->history);
  if (state_->editor) el_end(state_->editor);
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  std::string line;
  interrupted_ = false;
  if (!state_->editor) {
    int c;
    while ((c = std::getchar()) != EOF && c != '\n') line += static_cast<char>(c);
    if (c == EOF && line.empty()) return std::nullopt;
    if (line.ends_with('\r')) line.pop_back();
    return line;
  }
  state_->prompt = prompt;
  int count = 0;
  errno = 0;
  const char* typed = el_gets(state_->editor, &count);
  if (!typed || count <= 0) {
    if (count == -1 && errno == EINTR) {  // Ctrl-C: drops the typed text
      el_reset(state_->editor);
      std::fputs("\n", stderr);
      interrupted_ = true;
      return "";
    }
    return std::nullopt;
  }
  line.assign(typed, static_cast<std::size_t>(count));
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  if (!line.empty()) {
    HistEvent event;
    history(state_->history, &event, H_ENTER, line.c_str());
  }
  return line;
}

}  // namespace dml
