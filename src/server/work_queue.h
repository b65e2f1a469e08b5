// WorkQueue: a thread for what would hold up the IO thread: hashing, files, compilers. Bounded, in
// order.
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
  ~WorkQueue();  // ends the job under way; those that wait are dropped
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Stop();  // the same, before its end
  // False if too many wait already.
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
