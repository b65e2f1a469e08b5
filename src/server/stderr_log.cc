#include "server/stderr_log.h"

#include <algorithm>
#include <utility>

namespace pie::server {
namespace {

constexpr size_t kLongestLine = 4096;
constexpr size_t kRecordBytes = 128;  // of a record besides its line, roughly

}  // namespace

void StderrLog::Add(std::string_view text, const nlohmann::json& about) {
  while (is_on() && !text.empty()) {
    const size_t end = text.find('\n');
    const size_t room = kLongestLine - line_.size();
    const size_t size = std::min(end == std::string_view::npos ? text.size() : end, room);
    line_.append(text.substr(0, size));
    text.remove_prefix(size);
    const bool ended = text.starts_with('\n');
    if (ended) text.remove_prefix(1);
    if (ended || line_.size() == kLongestLine) Line(std::exchange(line_, ""), about);
  }
}

void StderrLog::End(const nlohmann::json& about) {
  if (is_on() && !line_.empty()) Line(std::exchange(line_, ""), about);
}

void StderrLog::Line(std::string_view line, const nlohmann::json& about) {
  nlohmann::json fields = about;
  const size_t size = line.size() + kRecordBytes;
  if (size > left_) {
    full_ = true;
    return log_->Info("stderr of this process has reached the log's limit", fields);
  }
  left_ -= size;
  if (!log_->Admits(about.value("user", ""), size)) {
    full_ = true;
    return log_->Limited("stderr of a user has reached the log's limit for a minute", fields);
  }
  fields["text"] = line;
  log_->Info("stderr", fields);
}

}  // namespace pie::server
