#include "cli/line_editor.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "cli/terminal.h"

namespace pie::cli {
namespace {

constexpr size_t kMaxHistory = 1'000;
constexpr size_t kMaxLineBytes = 1 << 20;

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// How many columns a text takes: one for each character. Wide characters are rare in prompts.
size_t Columns(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return !IsContinuation(c); }));
}

// Reads keys one by one while it exists. Ctrl-C is a key then.
class RawMode {
 public:
  RawMode() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  ~RawMode() { tcsetattr(STDIN_FILENO, TCSADRAIN, &before_); }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  termios before_{};
};

// The next byte of the terminal, or -1 at its end.
int ReadByte() {
  unsigned char byte = 0;
  while (true) {
    const ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got == 1) return byte;
    if (got < 0 && errno == EINTR) continue;
    return -1;
  }
}

void Write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

size_t Width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Draws the line again, over what was drawn before.
class Drawing {
 public:
  Drawing(std::string_view prompt, size_t prompt_columns)
      : prompt_(prompt), prompt_columns_(prompt_columns) {}

  void Draw(const LineBuffer& line) {
    const size_t width = Width();
    std::string out = Up(row_) + "\r\x1b[J" + std::string(prompt_);
    out += Harmless(line.text());
    const size_t end = prompt_columns_ + Columns(line.text());
    const size_t at = prompt_columns_ + Columns(line.text().substr(0, line.cursor()));
    if (end > 0 && end % width == 0) out += "\n\r";  // the terminal has not moved on yet
    out += Up(end / width - at / width) + "\r";
    if (at % width > 0) out += fmt::format("\x1b[{}C", at % width);
    row_ = at / width;
    Write(out);
  }

 private:
  static std::string Up(size_t rows) { return rows > 0 ? fmt::format("\x1b[{}A", rows) : ""; }

  std::string_view prompt_;
  size_t prompt_columns_;
  size_t row_ = 0;  // of the cursor, below the first
};

// Does what an escape sequence asks for.
void Escape(LineBuffer& line) {
  const int kind = ReadByte();
  if (kind != '[' && kind != 'O') return;
  int key = ReadByte();
  int number = 0;
  while (key >= '0' && key <= '9') {
    number = std::min(number * 10 + key - '0', 1'000);
    key = ReadByte();
  }
  while (key == ';' || (key >= '0' && key <= '9')) key = ReadByte();  // modifiers
  if (key == 'A') line.Older();
  if (key == 'B') line.Newer();
  if (key == 'C') line.Right();
  if (key == 'D') line.Left();
  if (key == 'H' || (key == '~' && (number == 1 || number == 7))) line.Home();
  if (key == 'F' || (key == '~' && (number == 4 || number == 8))) line.End();
  if (key == '~' && number == 3) line.Delete();
}

constexpr int Control(char letter) {
  return letter - '@';
}

}  // namespace

void LineBuffer::Insert(std::string_view bytes) {
  if (text_.size() + bytes.size() > kMaxLineBytes) return;
  text_.insert(cursor_, bytes);
  cursor_ += bytes.size();
}

void LineBuffer::Left() {
  while (cursor_ > 0 && IsContinuation(text_[--cursor_])) {
  }
}

void LineBuffer::Right() {
  if (cursor_ == text_.size()) return;
  ++cursor_;
  while (cursor_ < text_.size() && IsContinuation(text_[cursor_])) ++cursor_;
}

void LineBuffer::Backspace() {
  const size_t end = cursor_;
  Left();
  text_.erase(cursor_, end - cursor_);
}

void LineBuffer::Delete() {
  const size_t start = cursor_;
  Right();
  text_.erase(start, cursor_ - start);
  cursor_ = start;
}

void LineBuffer::EraseWord() {
  const size_t end = cursor_;
  while (cursor_ > 0 && text_[cursor_ - 1] == ' ') --cursor_;
  while (cursor_ > 0 && text_[cursor_ - 1] != ' ') --cursor_;
  text_.erase(cursor_, end - cursor_);
}

void LineBuffer::EraseToStart() {
  text_.erase(0, cursor_);
  cursor_ = 0;
}

void LineBuffer::Older() {
  if (entry_ > 0) Show(entry_ - 1);
}

void LineBuffer::Newer() {
  if (entry_ < history_.size()) Show(entry_ + 1);
}

void LineBuffer::Show(size_t entry) {
  if (entry_ == history_.size()) written_ = text_;
  entry_ = entry;
  text_ = entry == history_.size() ? written_ : history_[entry];
  cursor_ = text_.size();
}

LineEditor::LineEditor(std::string history_file) : file_(std::move(history_file)) {
  std::ifstream stream(file_);
  for (std::string line; std::getline(stream, line);) history_.push_back(line);
  if (history_.size() > kMaxHistory) {
    history_.erase(history_.begin(), history_.end() - kMaxHistory);
    std::ofstream rewritten(file_);
    for (const std::string& line : history_) rewritten << line << '\n';
  }
}

void LineEditor::Remember(const std::string& line) {
  std::string kept = line;
  std::ranges::replace(kept, '\n', ' ');
  if (kept.empty() || (!history_.empty() && history_.back() == kept)) return;
  history_.push_back(kept);
  if (!file_.empty()) std::ofstream(file_, std::ios::app) << kept << '\n';
}

bool LineEditor::Read(std::string_view prompt, std::string* line) {
  if (isatty(STDIN_FILENO) == 0) {
    std::fflush(stdout);
    return static_cast<bool>(std::getline(std::cin, *line));
  }
  return Edit(prompt, line);
}

bool LineEditor::Edit(std::string_view prompt, std::string* line) {
  const RawMode raw;
  LineBuffer buffer(&history_);
  const std::string shown = Green(prompt, STDOUT_FILENO) + " ";
  Drawing drawing(shown, Columns(prompt) + 1);
  while (true) {
    drawing.Draw(buffer);
    const int key = ReadByte();
    if (key < 0 || (key == Control('D') && buffer.text().empty())) {
      Write("\r\n");
      return false;
    }
    switch (key) {
      case '\r':
      case '\n':
        buffer.End();
        drawing.Draw(buffer);
        Write("\r\n");
        *line = buffer.text();
        return true;
      case Control('C'):
        Write("^C\r\n");
        line->clear();
        return true;
      case 0x7f:
      case Control('H'):
        buffer.Backspace();
        break;
      case Control('A'):
        buffer.Home();
        break;
      case Control('E'):
        buffer.End();
        break;
      case Control('D'):
        buffer.Delete();
        break;
      case Control('W'):
        buffer.EraseWord();
        break;
      case Control('U'):
        buffer.EraseToStart();
        break;
      case Control('K'):
        buffer.EraseToEnd();
        break;
      case 0x1b:
        Escape(buffer);
        break;
      default:
        if (key >= ' ' || key == '\t') {
          std::string bytes(1, static_cast<char>(key));
          // The bytes of one character come together.
          const int more = key >= 0xf0 ? 3 : key >= 0xe0 ? 2 : key >= 0xc0 ? 1 : 0;
          for (int i = 0; i < more; ++i) {
            const int next = ReadByte();
            if (next >= 0) bytes += static_cast<char>(next);
          }
          buffer.Insert(bytes);
        }
    }
  }
}

}  // namespace pie::cli
