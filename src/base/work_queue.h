// WorkQueue: threads for work that other threads must not do themselves, because it waits for a
// disk, a lock or a compiler. Bounded; jobs begin in the order in which they were pushed. Any
// thread may push.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pie {

class WorkQueue {
 public:
  using Job = std::move_only_function<void()>;

  // `name` is that of the threads in a debugger, at most 15 bytes.
  WorkQueue(const char* name, size_t threads, size_t max_jobs);
  ~WorkQueue();  // as Stop
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Waits for the jobs that run, and destroys the jobs that wait without running them.
  void Stop();
  // False: the queue is full or stopped, and the job was destroyed.
  bool Push(Job job);
  size_t size();  // jobs that wait

 private:
  void Run();
  const size_t max_jobs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pie
