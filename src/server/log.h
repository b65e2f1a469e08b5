// Log: writes one line per event, for people or (as JSON) for programs. Thread-safe; lines are
// never interleaved.
#pragma once

#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace pie::server {

class Log {
 public:
  enum class Level { kDebug, kInfo, kWarning, kError };
  struct Options {
    Level least = Level::kInfo;
    bool json = false;
    std::FILE* file = stderr;
  };
  explicit Log(Options options) : options_(options) {}

  bool Shows(Level level) const { return level >= options_.least; }
  // `fields` is an object: {"user": "ada", "process": "…"}.
  void Write(Level level, std::string_view event, const nlohmann::json& fields = {});
  void Info(std::string_view event, const nlohmann::json& fields = {}) {
    if (Shows(Level::kInfo)) Write(Level::kInfo, event, fields);
  }
  // For events that strangers can cause. Of each kind, few are written within a minute; the next
  // one after that says how many were left out.
  void Limited(std::string_view event, nlohmann::json fields = nlohmann::json::object());
  // Returns whether a user's inferlets may write this many bytes. Within a minute, the inferlets of
  // one user may write kUserBytes, and those of all users ten times as much.
  static constexpr size_t kUserBytes = size_t{4} << 20;
  bool Admits(std::string_view user, size_t bytes);
  // For events that a user can cause without limit. They count towards the same bytes.
  void OfUser(std::string_view user, std::string_view event, nlohmann::json fields);
  void Debug(std::string_view event, const nlohmann::json& fields = {}) {
    if (Shows(Level::kDebug)) Write(Level::kDebug, event, fields);
  }

 private:
  struct Window {
    std::chrono::steady_clock::time_point begin;
    size_t written = 0;
    size_t left_out = 0;
  };
  const Options options_;
  std::mutex mutex_;
  std::map<std::string, Window, std::less<>> windows_;  // by event
  std::chrono::steady_clock::time_point minute_;        // when the bytes below began to be counted
  size_t admitted_ = 0;
  std::map<std::string, size_t, std::less<>> admitted_by_user_;
};

}  // namespace pie::server
