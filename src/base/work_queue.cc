#include "base/work_queue.h"

#include <pthread.h>

#include <utility>

namespace pie {

WorkQueue::WorkQueue(const char* name, size_t threads, size_t max_jobs) : max_jobs_(max_jobs) {
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
    pthread_setname_np(threads_.back().native_handle(), name);
  }
}

WorkQueue::~WorkQueue() {
  Stop();
}

void WorkQueue::Stop() {
  std::deque<Job> dropped;  // destroyed without the lock: a job may hold anything
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool WorkQueue::Push(Job job) {
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
    Job job;
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

}  // namespace pie
