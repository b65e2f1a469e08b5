// StderrLog: copies the stderr of one process into the server's log, one record per line. Each
// process may log a limited number of bytes, and so may each user within a minute; a final record
// says that a limit was reached. One guest thread at a time; costs nothing while the log does not
// show such records.
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
  // `about` is added to each record: the process, its user and its program.
  void Add(std::string_view text, const nlohmann::json& about);
  // Logs an unterminated last line.
  void End(const nlohmann::json& about);
  bool is_on() const { return log_ != nullptr && log_->Shows(Log::Level::kInfo) && !full_; }

 private:
  void Line(std::string_view line, const nlohmann::json& about);

  Log* const log_;
  size_t left_;
  bool full_ = false;
  std::string line_;  // the current line, without its end so far
};

}  // namespace pie::server
