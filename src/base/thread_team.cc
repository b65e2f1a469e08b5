#include "base/thread_team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

namespace pie {

ThreadTeam::ThreadTeam(const char* name, size_t threads) {
  for (size_t i = 1; i < threads; ++i) {
    threads_.emplace_back([this, name] {
      pthread_setname_np(pthread_self(), name);
      Work();
    });
  }
}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

size_t ThreadTeam::Size(size_t most) {
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof(set), &set) == 0;
  const size_t allowed = known ? static_cast<size_t>(CPU_COUNT(&set)) : 1;
  return std::clamp<size_t>(allowed, 1, std::max<size_t>(most, 1));
}

void ThreadTeam::Run(size_t parts, const std::function<void(size_t)>& part) {
  std::unique_lock lock(mutex_);
  part_ = &part;
  next_ = 0;
  parts_ = parts;
  if (parts > 1) begun_.notify_all();
  DoParts(lock);
  ended_.wait(lock, [this] { return running_ == 0; });
  part_ = nullptr;
}

void ThreadTeam::DoParts(std::unique_lock<std::mutex>& lock) {
  while (next_ < parts_) {
    const size_t index = next_++;
    const auto& part = *part_;
    ++running_;
    lock.unlock();
    part(index);
    lock.lock();
    if (--running_ == 0 && next_ == parts_) ended_.notify_all();
  }
}

void ThreadTeam::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    begun_.wait(lock, [this] { return stop_ || next_ < parts_; });
    if (stop_) return;
    DoParts(lock);
  }
}

}  // namespace pie
