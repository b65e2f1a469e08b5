// Output for people: colours and spinners on a terminal, plain lines elsewhere.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"

namespace pie::cli {

bool IsTerminal(int fd);  // and NO_COLOR is not set and TERM is not "dumb"
// Colours the text if `fd`, to which it will be printed, is a terminal.
std::string Red(std::string_view text, int fd = STDERR_FILENO);
std::string Green(std::string_view text, int fd = STDERR_FILENO);
std::string Dim(std::string_view text, int fd = STDERR_FILENO);

// Prints `error: …` on stderr. Returns the exit code of a failure.
int ReportError(std::string_view text);
// Reports the error, if there is one. Returns the exit code of the command.
int ExitCode(const Status& status);

// A spinner on stderr during a long operation. Shows nothing if stderr is not a terminal, or if the
// operation is short.
class Spinner {
 public:
  explicit Spinner(std::string text, bool enabled = true);
  ~Spinner();
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

 private:
  std::string text_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// A progress bar on stderr, redrawn in place. Shows nothing if stderr is not a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::string text, bool enabled = true);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void Show(uint64_t done, uint64_t total);

 private:
  std::string text_;
  bool enabled_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_;
  int last_percent_ = -1;
};

// The text with control characters made visible, so that a program's output cannot move the
// cursor, change the title, or write to the clipboard of the terminal. Line ends and tabs stay.
std::string Harmless(std::string_view text);

}  // namespace pie::cli
