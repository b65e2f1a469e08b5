#include "base/work_queue.h"

#include <pthread.h>

#include <cstdio>
#include <exception>
#include <iterator>
#include <utility>

namespace pie {
namespace {

// A user may have at most this many waiting jobs for each free place of the queue.
constexpr size_t kShareOfRoom = 4;

}  // namespace

WorkQueue::WorkQueue(const char* name, size_t threads, size_t max_jobs)
    : max_jobs_(max_jobs), thread_count_(threads) {
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
    pthread_setname_np(threads_.back().native_handle(), name);
  }
}

WorkQueue::~WorkQueue() {
  Stop();
}

void WorkQueue::Stop() {
  std::vector<std::deque<Job>> dropped;  // destroyed without the lock: a job may hold anything
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    for (const auto& line : turns_) dropped.push_back(std::exchange(line->second.jobs, {}));
    turns_.clear();
    waiting_ = 0;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool WorkQueue::Push(std::string_view user, Job job) {
  std::lock_guard lock(mutex_);
  if (stop_ || waiting_ >= max_jobs_) return false;
  auto line = lines_.find(user);
  const size_t own = line == lines_.end() ? 0 : line->second.jobs.size();
  if (own + 1 > kShareOfRoom * (max_jobs_ - waiting_)) return false;
  if (line == lines_.end()) line = lines_.emplace(std::string(user), Line{}).first;
  if (own == 0) turns_.push_back(line);
  line->second.jobs.push_back(std::move(job));
  ++waiting_;
  changed_.notify_one();
  return true;
}

size_t WorkQueue::size() {
  std::lock_guard lock(mutex_);
  return waiting_;
}

// A user may hold at most as many threads as are free, so that some stay free for other users.
bool WorkQueue::MayRun(const Line& line) const {
  return line.running + 1 <= thread_count_ - running_;
}

std::list<WorkQueue::Lines::iterator>::iterator WorkQueue::Next() {
  // This loop skips only the lines of users who have jobs running, which are few.
  auto next = turns_.begin();
  while (next != turns_.end() && !MayRun((*next)->second)) ++next;
  return next;
}

void WorkQueue::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || Next() != turns_.end(); });
    if (stop_) return;
    const auto turn = Next();
    const auto line = *turn;
    Job job = std::move(line->second.jobs.front());
    line->second.jobs.pop_front();
    --waiting_;
    if (line->second.jobs.empty()) {
      turns_.erase(turn);
    } else {
      turns_.splice(turns_.end(), turns_, turn);
    }
    ++line->second.running;
    ++running_;
    lock.unlock();
    try {
      job();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "pie: a background job failed: %s\n", error.what());
    }
    job = nullptr;  // destroyed without the lock
    lock.lock();
    --running_;
    if (--line->second.running == 0 && line->second.jobs.empty()) lines_.erase(line);
    if (!turns_.empty()) changed_.notify_one();  // another job of this user may run now
  }
}

}  // namespace pie
