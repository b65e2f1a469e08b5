// LineEditor: reads lines from a terminal, with arrow keys and a history that a file keeps. Where
// stdin or stdout is not a terminal, it reads plain lines.
//
// Keys: left, right, Home, End, Ctrl-A, Ctrl-E move; up and down go through the history; Backspace,
// Delete, Ctrl-W, Ctrl-U and Ctrl-K erase; Ctrl-C drops the line; Ctrl-D on an empty line ends the
// input. Text that is pasted may have several lines: none of them ends the input.
#pragma once

#include <termios.h>

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace pie::cli {

// The text of a line and the cursor in it, without a terminal: what each key does.
class LineBuffer {
 public:
  explicit LineBuffer(const std::vector<std::string>* history)
      : history_(*history), entry_(history->size()) {}

  void Insert(std::string_view bytes);
  void Left();
  void Right();
  void Home() { cursor_ = 0; }
  void End() { cursor_ = text_.size(); }
  void Backspace();
  void Delete();
  void EraseWord();  // before the cursor
  void EraseToStart();
  void EraseToEnd() { text_.erase(cursor_); }
  // Show an older or a newer line of the history. The line that was being written comes back.
  void Older();
  void Newer();

  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }  // in bytes

 private:
  void Show(size_t entry);

  const std::vector<std::string>& history_;
  std::string text_;
  std::string written_;  // while the history is shown
  size_t cursor_ = 0;
  size_t entry_;
};

enum class Typed {
  kLine,
  kDropped,  // by Ctrl-C
  kEnd,      // of the input
};

class LineEditor {
 public:
  // `history_file` is read now and written as lines come. Empty: the history is not kept.
  explicit LineEditor(std::string history_file);

  // Whether lines are edited on a terminal.
  bool interactive() const { return interactive_; }
  // Reads a line without its end.
  Typed Read(std::string_view prompt, std::string* line);
  // Adds a line, or several in one, to the history.
  void Remember(const std::string& line);
  // Puts the terminal back as it was before Read. For a program that ends during Read; any thread
  // may call it.
  void Restore();

 private:
  // Reads keys one by one while it exists.
  class RawMode;

  Typed Edit(std::string_view prompt, std::string* line);

  bool interactive_;
  std::mutex mutex_;  // of the two members below
  bool is_raw_ = false;
  termios before_{};
  std::string file_;
  std::vector<std::string> history_;
};

}  // namespace pie::cli
