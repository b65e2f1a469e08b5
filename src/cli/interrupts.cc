#include "cli/interrupts.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "cli/terminal.h"

namespace pie::cli {
namespace {

[[noreturn]] void LeaveAtOnce() {
  if (IsTerminal(STDERR_FILENO)) std::fputs("\r\x1b[K", stderr);  // clears the line of a spinner
  _exit(kInterrupted);
}

}  // namespace

Interrupts::Interrupts() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  sigaddset(&set_, SIGUSR1);  // sent by the destructor to stop the thread
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this] { Listen(); });
}

Interrupts::~Interrupts() {
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

void Interrupts::Watch(std::function<void()> stop) {
  std::lock_guard lock(mutex_);
  stop_ = std::move(stop);
}

void Interrupts::WatchEach(std::function<bool(int signal)> handle) {
  std::lock_guard lock(mutex_);
  handle_ = std::move(handle);
}

void Interrupts::Listen() {
  while (true) {
    int signal = 0;
    sigwait(&set_, &signal);
    if (done_) return;
    std::lock_guard lock(mutex_);
    if (handle_) {
      if (!handle_(signal)) LeaveAtOnce();
      continue;
    }
    if (interrupted_.exchange(true) || !stop_) LeaveAtOnce();
    stop_();
  }
}

}  // namespace pie::cli
