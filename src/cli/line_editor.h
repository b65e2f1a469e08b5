// LineEditor: reads lines from a terminal, with arrow keys and a history that a file keeps. Where
// stdin is not a terminal, it reads plain lines.
//
// Keys: left, right, Home, End, Ctrl-A, Ctrl-E move; up and down go through the history; Backspace,
// Delete, Ctrl-W, Ctrl-U and Ctrl-K erase; Ctrl-C drops the line; Ctrl-D on an empty line ends the
// input.
#pragma once

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

class LineEditor {
 public:
  // `history_file` is read now and written as lines come. Empty: the history is not kept.
  explicit LineEditor(std::string history_file);

  // Reads a line without its end. False at the end of the input.
  bool Read(std::string_view prompt, std::string* line);
  // Adds a line, or several in one, to the history.
  void Remember(const std::string& line);

 private:
  bool Edit(std::string_view prompt, std::string* line);

  std::string file_;
  std::vector<std::string> history_;
};

}  // namespace pie::cli
