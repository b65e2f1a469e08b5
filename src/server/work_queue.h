// WorkQueue: a thread for work that would block the IO thread: hashing, files, compilers. The queue
// is bounded and runs jobs in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace pie::server {

class WorkQueue {
 public:
  explicit WorkQueue(size_t max_jobs);
  ~WorkQueue();  // waits for the running job and drops the others
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Stop();  // the same, before the destructor
  // Returns false if the queue is full.
  bool Push(std::function<void()> job);
  size_t size();

 private:
  void Run();
  const size_t max_jobs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace pie::server
