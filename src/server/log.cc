#include "server/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <chrono>

#include "base/one_line.h"

namespace pie::server {
namespace {

constexpr size_t kRecordBytes = 64;  // rough size of a record besides its event and its fields
constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning", "error"};

std::string Now() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = now.time_since_epoch() / std::chrono::milliseconds(1) % 1000;
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms);
}

// JSON text may hold control characters above U+007E. A terminal would obey them.
std::string Dump(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t bytes = ControlCharacterAt(text, i);
    if (bytes == 0) continue;
    const auto character = static_cast<unsigned char>(text[i + bytes - 1]);
    text.replace(i, bytes, fmt::format("\\u{:04x}", character));
  }
  return text;
}

}  // namespace

void Log::Limited(std::string_view event, nlohmann::json fields) {
  constexpr size_t kMost = 20;
  constexpr auto kWindow = std::chrono::minutes(1);
  {
    std::lock_guard lock(mutex_);
    auto found = windows_.find(event);
    if (found == windows_.end()) found = windows_.emplace(std::string(event), Window{}).first;
    Window& window = found->second;
    const auto now = std::chrono::steady_clock::now();
    if (window.written == 0 || now - window.begin >= kWindow) {
      if (window.left_out > 0) fields["left_out_before"] = window.left_out;
      window = {.begin = now};
    }
    if (window.written >= kMost) {
      ++window.left_out;
      return;
    }
    ++window.written;
  }
  Info(event, fields);
}

bool Log::Admits(std::string_view user, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - minute_ >= std::chrono::minutes(1)) {
    minute_ = now;
    admitted_ = 0;
    admitted_by_user_.clear();
  }
  auto found = admitted_by_user_.find(user);
  if (found == admitted_by_user_.end()) {
    found = admitted_by_user_.emplace(std::string(user), 0).first;
  }
  if (found->second + bytes > kUserBytes || admitted_ + bytes > 10 * kUserBytes) return false;
  found->second += bytes;
  admitted_ += bytes;
  return true;
}

void Log::OfUser(std::string_view user, std::string_view event, nlohmann::json fields) {
  if (!Shows(Level::kInfo)) return;
  fields["user"] = user;
  if (Admits(user, event.size() + Dump(fields).size() + kRecordBytes)) Info(event, fields);
}

void Log::Write(Level level, std::string_view event, const nlohmann::json& fields) {
  if (!Shows(level)) return;
  std::string line;
  const std::string_view name = kLevels[static_cast<size_t>(level)];
  if (options_.json) {
    nlohmann::json object = {{"time", Now()}, {"level", name}, {"event", event}};
    if (fields.is_object()) object.update(fields);
    line = Dump(object) + "\n";
  } else {
    line = fmt::format("{} {:<7} {}", Now(), name, event);
    // Texts are quoted like JSON strings, so that a name with a line break cannot forge a line.
    if (fields.is_object()) {
      for (const auto& [key, value] : fields.items()) {
        line += fmt::format(" {}={}", key, Dump(value));
      }
    }
    line += "\n";
  }
  std::lock_guard lock(mutex_);
  std::fwrite(line.data(), 1, line.size(), options_.file);
  std::fflush(options_.file);
}

}  // namespace pie::server
