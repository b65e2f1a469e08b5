// Interrupts: SIGINT and SIGTERM, taken by a thread. The first stops in good order what is watched,
// the second leaves at once. Make it before there are other threads: they inherit what is blocked.
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

  // What the first signal calls, on that thread. Null (while code compiles, say): there is nothing
  // to stop in good order, and it leaves at once.
  void Watch(std::function<void()> stop);
  bool interrupted() const { return interrupted_; }

 private:
  void Listen();

  sigset_t set_;
  std::atomic<bool> interrupted_ = false;
  std::atomic<bool> done_ = false;
  std::mutex mutex_;
  std::function<void()> stop_;
  std::thread thread_;
};

}  // namespace pie::cli
