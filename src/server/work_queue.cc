#include "server/work_queue.h"

#include <utility>

namespace pie::server {

WorkQueue::WorkQueue(size_t max_jobs) : max_jobs_(max_jobs), thread_([this] { Run(); }) {}

WorkQueue::~WorkQueue() {
  Stop();
}

void WorkQueue::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool WorkQueue::Push(std::function<void()> job) {
  std::lock_guard lock(mutex_);
  if (stop_ || jobs_.size() >= max_jobs_) return false;
  jobs_.push_back(std::move(job));
  changed_.notify_one();
  return true;
}

size_t WorkQueue::size() {
  std::lock_guard lock(mutex_);
  return jobs_.size();
}

void WorkQueue::Run() {
  while (true) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace pie::server
