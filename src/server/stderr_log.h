// StderrLog: what one process writes to stderr, into the server's log, a record a line. A guest can
// write much, so each process has so many bytes of the log; the record past them says so.
// One guest thread at a time; costs nothing while the log shows no such records.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "server/log.h"

namespace pie::server {

class StderrLog {
 public:
  // Without a log it does nothing.
  StderrLog(Log* log, size_t max_bytes) : log_(log), left_(max_bytes) {}
  // `about` goes with each line: the process, its user, its program.
  void Add(std::string_view text, const nlohmann::json& about);
  // The last line may have no end.
  void End(const nlohmann::json& about);
  bool is_on() const { return log_ != nullptr && log_->Shows(Log::Level::kInfo) && !full_; }

 private:
  void Line(std::string_view line, const nlohmann::json& about);

  Log* const log_;
  size_t left_;
  bool full_ = false;
  std::string line_;  // without its end so far
};

}  // namespace pie::server
