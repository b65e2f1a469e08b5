// Interrupts: a thread that handles SIGINT and SIGTERM. The first signal stops the watched work in
// an orderly way, the second exits at once. Construct it before any other thread: threads inherit
// the blocked signals.
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace pie::cli {

constexpr int kInterrupted = 130;  // the exit code

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Sets the function that the first signal calls, on that thread. If it is null, the first signal
  // exits at once.
  void Watch(std::function<void()> stop);
  // Sets a function that every signal calls with its number, on that thread. If it returns false,
  // the program exits at once. It takes precedence.
  void WatchEach(std::function<bool(int signal)> handle);
  bool interrupted() const { return interrupted_; }

 private:
  void Listen();

  sigset_t set_;
  std::atomic<bool> interrupted_ = false;
  std::atomic<bool> done_ = false;
  std::mutex mutex_;
  std::function<void()> stop_;
  std::function<bool(int signal)> handle_;
  std::thread thread_;
};

}  // namespace pie::cli
