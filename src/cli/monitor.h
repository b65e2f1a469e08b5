// Monitor: `pie serve --monitor`, a view of the engine on the terminal that refreshes itself.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "server/service.h"

namespace pie::cli {

// Counters, from which rates are computed.
struct Sample {
  uint64_t steps = 0, tokens = 0, launches = 0, messages = 0;
};

// Returns the lines of one view. `seconds` is the time since `before`.
std::string MonitorText(server::Service& service, const Sample& before, Sample* now,
                        double seconds);

class Monitor {
 public:
  explicit Monitor(server::Service& service);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

 private:
  void Run();
  server::Service& service_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace pie::cli
