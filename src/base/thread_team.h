// ThreadTeam: threads that do the parts of a large job together with the caller: copies between
// memory and files, checksums, conversions. The threads sleep between jobs.
//
// One caller at a time. A job costs some tens of microseconds to begin, so a part should take
// longer than that.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pie {

class ThreadTeam {
 public:
  // `threads` includes the caller. `name` is that of the threads in a debugger, at most 15 bytes.
  ThreadTeam(const char* name, size_t threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // How many threads this process may run at a time, but no more than `most`; at least 1.
  static size_t Size(size_t most);

  size_t threads() const { return threads_.size() + 1; }

  // Calls part(i) once for every i below `parts`, and returns when all calls have returned. A part
  // must not throw.
  void Run(size_t parts, const std::function<void(size_t)>& part);

 private:
  void Work();
  // Does parts until none is left. Called and returns with the mutex held.
  void DoParts(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable ended_;
  const std::function<void(size_t)>* part_ = nullptr;
  size_t next_ = 0;
  size_t parts_ = 0;
  size_t running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace pie
