#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace pie::cli {
namespace {

std::string Coloured(std::string_view code, std::string_view text, int fd) {
  if (!IsTerminal(fd)) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace

bool IsTerminal(int fd) {
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  return isatty(fd) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

std::string Red(std::string_view text, int fd) {
  return Coloured("31", text, fd);
}
std::string Green(std::string_view text, int fd) {
  return Coloured("32", text, fd);
}
std::string Dim(std::string_view text, int fd) {
  return Coloured("2", text, fd);
}

int ReportError(std::string_view text) {
  // An error may quote a program's output.
  const std::string shown = isatty(STDERR_FILENO) == 1 ? Harmless(text) : std::string(text);
  fmt::print(stderr, "{} {}\n", Red("error:"), shown);
  return 1;
}

int ExitCode(const Status& status) {
  return status ? 0 : ReportError(status.error().text);
}

Spinner::Spinner(std::string text, bool enabled) : text_(std::move(text)) {
  if (!enabled || !IsTerminal(STDERR_FILENO)) return;
  thread_ = std::thread([this] {
    static constexpr const char* kFrames[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    const auto start = std::chrono::steady_clock::now();
    bool shown = false;
    for (int i = 0; !stop_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(80));
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      if (spent.count() < 0.2 || stop_) continue;
      fmt::print(stderr, "\r\x1b[K{} {} {}", kFrames[i % 10], text_,
                 Dim(fmt::format("{:.0f} s", spent.count())));
      std::fflush(stderr);
      shown = true;
    }
    if (shown) fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
  });
}

Spinner::~Spinner() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

ProgressBar::ProgressBar(std::string text, bool enabled)
    : text_(std::move(text)),
      enabled_(enabled && IsTerminal(STDERR_FILENO)),
      start_(std::chrono::steady_clock::now()) {}

void ProgressBar::Show(uint64_t done, uint64_t total) {
  if (!enabled_ || total == 0) return;
  const int percent =
      static_cast<int>(static_cast<double>(done) / static_cast<double>(total) * 100);
  if (percent == last_percent_) return;
  if (std::chrono::steady_clock::now() - start_ < std::chrono::milliseconds(200)) return;
  last_percent_ = percent;
  shown_ = true;
  std::string bar;
  for (int i = 0; i < 20; ++i) bar += i * 5 < percent ? "━" : "┄";
  fmt::print(stderr, "\r\x1b[K{} {} {}", text_, bar, Dim(fmt::format("{} %", percent)));
  std::fflush(stderr);
}

ProgressBar::~ProgressBar() {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

std::string Harmless(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == '\n' || byte == '\r' || byte == '\t') {
      shown += text[i];
    } else if (byte < 0x20) {  // U+2400 to U+241F are pictures of these characters
      shown += "\xe2\x90";
      shown += static_cast<char>(0x80 + byte);
    } else if (byte == 0x7f) {
      shown += "\xe2\x90\xa1";
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {  // U+0080 to U+009F, as UTF-8
      shown += "\xef\xbf\xbd";
      ++i;
    } else {
      shown += text[i];
    }
  }
  return shown;
}

}  // namespace pie::cli
