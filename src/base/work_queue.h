// WorkQueue: threads for work that other threads must not do themselves, because it waits for a
// disk, a lock or a compiler. Any thread may push.
//
// The queue is bounded and fair to users: their jobs take turns, each user's in the order in which
// they were pushed. A user may not fill the queue nor occupy all threads: some of the free places
// are left for the next user. A job that throws is logged and does not end the thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
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
  // False: the queue is full or stopped, or the user has their share of it; the job was destroyed.
  bool Push(std::string_view user, Job job);
  size_t size();  // jobs that wait

 private:
  struct Line {
    std::deque<Job> jobs;
    size_t running = 0;
  };
  using Lines = std::map<std::string, Line, std::less<>>;
  void Run();
  bool MayRun(const Line& line) const;
  // The line whose turn it is; the end if none may run. With the mutex held.
  std::list<Lines::iterator>::iterator Next();

  const size_t max_jobs_;
  const size_t thread_count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Lines lines_;                       // of users who have a job here
  std::list<Lines::iterator> turns_;  // the lines where a job waits, the next one first
  size_t waiting_ = 0, running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pie
