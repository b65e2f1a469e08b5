#include "cli/line_editor.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "cli/columns.h"
#include "cli/terminal.h"

namespace pie::cli {
namespace {

constexpr size_t kMaxHistory = 1'000;
constexpr size_t kMaxLineBytes = 1 << 20;

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

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

// How a text is shown while it is edited. Tabs would jump, so they are shown as spaces.
std::string Shown(std::string_view text) {
  std::string shown = Harmless(text);
  std::ranges::replace(shown, '\t', ' ');
  std::ranges::replace(shown, '\r', ' ');
  return shown;
}

// Draws the line again, in the place where it was drawn before.
class Drawing {
 public:
  Drawing(std::string_view prompt, size_t prompt_columns)
      : prompt_(prompt), prompt_columns_(prompt_columns) {}

  void Draw(const LineBuffer& line) {
    const size_t width = Width();
    const std::string text = Shown(line.text());
    const Place start{.column = prompt_columns_};
    const Place end = After(start, text, width);
    Place at = After(start, Shown(line.text().substr(0, line.cursor())), width);
    std::string out = Up(row_) + "\r\x1b[J" + std::string(prompt_);
    for (const char c : text) out += c == '\n' ? std::string("\r\n") : std::string(1, c);
    size_t row = end.row;
    if (end.column >= width) {
      out += "\n\r";  // the terminal has not moved on yet
      ++row;
    }
    if (at.column >= width) at = {at.row + 1, 0};
    out += Up(row - std::min(row, at.row)) + "\r";
    if (at.column > 0) out += fmt::format("\x1b[{}C", at.column);
    row_ = at.row;
    Write(out);
  }

 private:
  static std::string Up(size_t rows) { return rows > 0 ? fmt::format("\x1b[{}A", rows) : ""; }

  std::string_view prompt_;
  size_t prompt_columns_;
  size_t row_ = 0;  // of the cursor, below the first
};

// The marks that a terminal sends around pasted text, and the request to send them.
constexpr std::string_view kPasteEnd = "\x1b[201~";
constexpr std::string_view kMarkPastes = "\x1b[?2004h", kDoNotMarkPastes = "\x1b[?2004l";

// Reads pasted text up to its end. Line ends that close the text are left out, and so are control
// characters. A text that is too long is left out as a whole.
std::string ReadPasted() {
  std::string bytes;
  bool too_long = false;
  while (!bytes.ends_with(kPasteEnd)) {
    const int byte = ReadByte();
    if (byte < 0) return "";
    bytes += static_cast<char>(byte);
    if (bytes.size() <= kMaxLineBytes) continue;
    too_long = true;
    bytes.erase(0, bytes.size() - kPasteEnd.size());
  }
  if (too_long) return "";
  bytes.resize(bytes.size() - kPasteEnd.size());
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte == '\r' || byte == '\n') {
      if (byte == '\n' && i > 0 && bytes[i - 1] == '\r') continue;
      text += '\n';
    } else if (byte == '\t' || (byte >= ' ' && byte != 0x7f)) {
      text += bytes[i];
    }
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// Carries out an escape sequence.
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
  if (key == '~' && number == 200) line.Insert(ReadPasted());
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

class LineEditor::RawMode {
 public:
  explicit RawMode(LineEditor* editor) : editor_(*editor) {
    std::lock_guard lock(editor_.mutex_);
    tcgetattr(STDIN_FILENO, &editor_.before_);
    termios raw = editor_.before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);  // Ctrl-C is a key
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    editor_.is_raw_ = true;
    Write(kMarkPastes);
  }
  ~RawMode() { editor_.Restore(); }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  LineEditor& editor_;
};

void LineEditor::Restore() {
  std::lock_guard lock(mutex_);
  if (!is_raw_) return;
  is_raw_ = false;
  Write(kDoNotMarkPastes);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

namespace {

bool CanEdit() {
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && !dumb;
}

}  // namespace

LineEditor::LineEditor(std::string history_file)
    : interactive_(CanEdit()), file_(std::move(history_file)) {
  std::ifstream stream(file_);
  for (std::string line; std::getline(stream, line);) history_.push_back(line);
  if (history_.size() > kMaxHistory) {
    history_.erase(history_.begin(), history_.end() - kMaxHistory);
    std::ofstream rewritten(file_);
    for (const std::string& line : history_) rewritten << line << '\n';
  }
}

void LineEditor::Remember(const std::string& line) {
  if (line.empty() || (!history_.empty() && history_.back() == line)) return;
  history_.push_back(line);
  if (file_.empty()) return;
  std::string kept = line;  // the file has one entry a line
  std::ranges::replace(kept, '\n', ' ');
  std::ofstream(file_, std::ios::app) << kept << '\n';
}

Typed LineEditor::Read(std::string_view prompt, std::string* line) {
  if (interactive_) return Edit(prompt, line);
  std::fflush(stdout);
  return std::getline(std::cin, *line) ? Typed::kLine : Typed::kEnd;
}

Typed LineEditor::Edit(std::string_view prompt, std::string* line) {
  const RawMode raw(this);
  LineBuffer buffer(&history_);
  const std::string shown = Green(prompt, STDOUT_FILENO) + " ";
  Drawing drawing(shown, Columns(prompt) + 1);
  while (true) {
    drawing.Draw(buffer);
    const int key = ReadByte();
    if (key < 0 || (key == Control('D') && buffer.text().empty())) {
      Write("\r\n");
      return Typed::kEnd;
    }
    switch (key) {
      case '\r':
      case '\n':
        buffer.End();
        drawing.Draw(buffer);
        Write("\r\n");
        *line = buffer.text();
        return Typed::kLine;
      case Control('C'):
        Write("^C\r\n");
        line->clear();
        return Typed::kDropped;
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
