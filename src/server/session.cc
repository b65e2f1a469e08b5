#include "server/session.h"

#include <algorithm>

#include "base/utf8.h"
#include "host/hash.h"

namespace pie::server {
namespace {

constexpr size_t kEventOverhead = 128;  // memory of an event besides its text
constexpr size_t kHeadroom = 32;        // this part of the budget is left for events under way
constexpr size_t kKeptReturn = 1'024;   // a final event up to this size is always kept
constexpr size_t kWatchedBytes = 64ull << 10;           // text kept for watchers
constexpr auto kWatchedFor = std::chrono::seconds(10);  // after the last look

}  // namespace

Session::Session(Options options, const Limits& limits, std::shared_ptr<host::ByteBudget> budget,
                 Places places)
    : options_(std::move(options)),
      limits_(limits),
      numbered_(options_.numbered),
      budget_(std::move(budget)),
      places_(std::move(places)),
      watched_charge_(budget_),
      stderr_log_(options_.log, limits.max_logged_stderr_bytes) {
  if (options_.running) ++*options_.running;
}

Session::~Session() {
  budget_->Give(bytes_);
  if (options_.running && !ended_at_) --*options_.running;  // the launch failed
}

void Session::SetProcess(std::shared_ptr<host::Process> process) {
  std::lock_guard lock(mutex_);
  id_ = process->id();
  if (!ended_at_) process_ = std::move(process);
}

std::shared_ptr<host::Process> Session::process() const {
  std::lock_guard lock(mutex_);
  return process_;
}

Status Session::Attach(std::shared_ptr<Outlet> outlet, std::optional<uint64_t> seen) {
  std::lock_guard lock(mutex_);
  if (seen && *seen >= next_seq_) {
    return Fail(Code::kInvalid, "'seen' is {}, but this process has sent {} events", *seen,
                next_seq_ - 1);
  }
  next_ = confirmed_;
  next_chunk_ = 0;
  if (seen) {
    auto first = std::ranges::find_if(events_, [&](const Event& e) { return e.seq > *seen; });
    next_ = confirmed_ = static_cast<size_t>(first - events_.begin());
    const uint64_t oldest = first == events_.end() ? next_seq_ : first->seq;
    lost_ = oldest - *seen - 1;
  }
  // A client that attaches without `seen` gets the final event, even if another client has taken
  // it.
  if (!seen && ended_at_ && next_ == events_.size() && next_ > 0) next_ = confirmed_ = next_ - 1;
  numbered_ = seen.has_value();
  outlet_ = std::move(outlet);
  woken_ = true;  // the new client takes events by itself
  return {};
}

void Session::Detach(const Outlet* outlet) {
  std::shared_ptr<host::Process> process;
  {
    std::lock_guard lock(mutex_);
    if (outlet_.get() != outlet) return;
    outlet_.reset();
    next_ = confirmed_;
    next_chunk_ = 0;
    MakeRoom(0);
    room_.Fire();  // a process without a client does not wait
    process = process_;
  }
  if (process) process->ClientLeft();
}

bool Session::attached() const {
  std::lock_guard lock(mutex_);
  return outlet_ != nullptr;
}

std::shared_ptr<host::McpServers> Session::ClientsServers() const {
  std::lock_guard lock(mutex_);
  return outlet_ ? outlet_->mcp() : nullptr;
}

std::vector<std::string> Session::Names() {
  const auto servers = ClientsServers();
  return servers ? servers->Names() : std::vector<std::string>();
}

Result<std::shared_ptr<host::Pending<host::McpAnswer>>> Session::Ask(
    const host::McpRequest& request) {
  if (const auto servers = ClientsServers()) return servers->Ask(request);
  return Fail(Code::kUnavailable, "no client is attached that could reach the server '{}'",
              request.server);
}

std::optional<Outgoing> Session::Take(const Outlet* outlet) {
  std::lock_guard lock(mutex_);
  if (outlet_.get() != outlet) return std::nullopt;
  if (lost_ > 0) {
    const std::string text = fmt::format(
        "[pie] {} events of this process were dropped because no client was attached\n", lost_);
    lost_ = 0;
    return Outgoing{EncodeEvent(id_, EventKind::kStderr, text)};
  }
  if (next_ == events_.size()) {
    woken_ = false;
    return std::nullopt;
  }
  const Event& event = events_[next_];
  const std::optional<uint64_t> seq = numbered_ ? std::optional(event.seq) : std::nullopt;
  if (!event.is_file) {
    ++next_;
    const bool last = ended_at_ && next_ == events_.size();
    return Outgoing{EncodeEvent(id_, event.kind, event.value, seq), last};
  }
  const auto total = static_cast<uint32_t>(
      std::max<size_t>(1, (event.value.size() + kChunkBytes - 1) / kChunkBytes));
  const auto data = std::string_view(event.value).substr(next_chunk_ * kChunkBytes, kChunkBytes);
  Outgoing chunk{EncodeFileChunk(id_, {event.hash, next_chunk_, total, data}, seq)};
  if (++next_chunk_ == total) {
    next_chunk_ = 0;
    ++next_;
  }
  return chunk;
}

void Session::Sent(const Outlet* outlet) {
  std::lock_guard lock(mutex_);
  if (outlet_.get() != outlet) return;
  confirmed_ = next_;
  // The final event is kept as long as the session, because another client may attach for it.
  const size_t kept = options_.numbered && ended_at_ ? 1 : 0;
  while (!numbered_ && confirmed_ > 0 && events_.size() > kept) DropFront();
  // Waits until half the ring is free: waking a process costs the same for one event as for many.
  if (!waits_ || unsent() > limits_.max_ring_events / 2 || FullLocked()) return;
  waits_ = false;
  room_.Fire();
}

void Session::KeepForWatchers(const Event& event) {
  if (std::chrono::steady_clock::now() - *watched_at_ > kWatchedFor) {
    watched_at_.reset();
    // One more than there was, so that a watcher who comes back knows of the gap.
    watched_before_ += std::exchange(watched_text_, {}).size() + 1;
    watched_charge_.Release();
    return;
  }
  if (event.is_file) return;
  watched_text_ += event.value;
  size_t gone = watched_text_.size() > kWatchedBytes ? watched_text_.size() - kWatchedBytes / 2 : 0;
  if (!watched_charge_.Resize(watched_text_.size() - gone)) gone = watched_text_.size();
  // The text begins with a whole character.
  while (gone > 0 && gone < watched_text_.size() && (watched_text_[gone] & 0xC0) == 0x80) ++gone;
  watched_text_.erase(0, gone);
  watched_before_ += gone;
}

Session::Seen Session::Look(uint64_t from) {
  std::lock_guard lock(mutex_);
  const bool first = !watched_at_;
  watched_at_ = std::chrono::steady_clock::now();
  if (first && from == 0) {
    for (const Event& event : events_) KeepForWatchers(event);
  }
  Seen seen{.next = watched_before_ + watched_text_.size()};
  from = std::min(from, seen.next);
  seen.cut = from < watched_before_;
  seen.text = watched_text_.substr(seen.cut ? 0 : from - watched_before_);
  if (ended_at_) seen.ending = exited_well_ ? "return" : "error";
  return seen;
}

std::optional<std::chrono::steady_clock::time_point> Session::ended_at() const {
  std::lock_guard lock(mutex_);
  return ended_at_;
}

void Session::OnMessage(std::string_view text) {
  Put(false, EventKind::kStdout, std::string(text));
}

void Session::OnFile(std::string_view bytes) {
  Put(true, EventKind::kMessage, std::string(bytes));
}

void Session::OnOutput(bool is_stderr, std::string_view bytes) {
  if (is_stderr && stderr_log_.is_on()) stderr_log_.Add(bytes, About());
  if (!options_.capture_outputs) return;
  // A write may end within a character; the rest of it comes with the next write.
  std::string& carry = carry_[is_stderr ? 1 : 0];
  carry.append(bytes);
  std::string text;
  carry.erase(0, AppendWholeCharacters(carry, text));
  if (!text.empty()) {
    Put(false, is_stderr ? EventKind::kStderr : EventKind::kStdout, std::move(text));
  }
}

nlohmann::json Session::About() const {
  std::lock_guard lock(mutex_);
  return {{"process", id_}, {"user", options_.username}, {"program", options_.program}};
}

void Session::OnExit(const wasm::Exit& exit) {
  stderr_log_.End(About());
  for (const bool is_stderr : {false, true}) {
    if (!carry_[is_stderr].empty()) {
      Put(false, is_stderr ? EventKind::kStderr : EventKind::kStdout,
          ToValidUtf8(carry_[is_stderr]));
    }
  }
  std::string text = exit.text;
  auto kind = exit.kind == wasm::Exit::Kind::kReturned ? EventKind::kReturn : EventKind::kError;
  if (text.size() > limits_.max_ring_bytes / 2) {
    text =
        fmt::format("the inferlet returned {} bytes, but at most {} MiB can be sent; use send_file",
                    text.size(), limits_.max_ring_bytes >> 21);
    kind = EventKind::kError;
  }
  Put(false, kind, std::move(text));
  places_.running.Release();
  // Last, because the server may be shut down once no process is running.
  if (options_.running) --*options_.running;
}

bool Session::Full() {
  std::lock_guard lock(mutex_);
  if (!FullLocked()) return false;
  room_.Clear();
  waits_ = true;
  return true;
}

bool Session::FullLocked() const {
  if (outlet_ == nullptr) return false;
  if (unsent() == 0) return false;  // no event is left to send, so no Sent would end the wait
  if (unsent() >= limits_.max_ring_events) return true;
  if (bytes_ < limits_.max_ring_bytes) return !budget_->Fits(budget_->limit() / kHeadroom);
  size_t waiting = 0;
  for (size_t i = confirmed_; i < events_.size(); ++i) waiting += events_[i].value.size();
  return waiting >= limits_.max_ring_bytes;
}

void Session::Put(bool is_file, EventKind kind, std::string value) {
  std::string hash = is_file ? host::Blake3Hex(value) : "";
  std::shared_ptr<Outlet> to_wake;
  {
    std::lock_guard lock(mutex_);
    // Set together with the final event, so that the two are never seen apart.
    if (kind == EventKind::kReturn || kind == EventKind::kError) {
      ended_at_ = std::chrono::steady_clock::now();
      exited_well_ = kind == EventKind::kReturn;
      process_.reset();
    }
    Event event{next_seq_++, is_file, kind, std::move(value), std::move(hash)};
    if (watched_at_) KeepForWatchers(event);
    PutLocked(std::move(event));
    if (outlet_ && !woken_) {
      woken_ = true;
      to_wake = outlet_;
    }
  }
  if (to_wake) to_wake->Wake(shared_from_this());
}

void Session::PutLocked(Event event) {
  size_t bytes = event.value.size() + kEventOverhead;
  bool fits = MakeRoom(bytes);
  // A final event is kept in any case, if need be without its value.
  if (!fits && ended_at_ && event.value.size() > kKeptReturn) {
    event.kind = EventKind::kError;
    event.value = fmt::format(
        "the inferlet's last {} bytes were dropped: {} MiB of events of your processes wait to be "
        "read",
        event.value.size(), budget_->used() >> 20);
    bytes = event.value.size() + kEventOverhead;
    fits = MakeRoom(bytes);
  }
  if (fits) {
    event.charged = bytes;
    bytes_ += bytes;
  } else if (!ended_at_) {
    ++lost_;
    return;
  }
  events_.push_back(std::move(event));
}

// Drops old events until `bytes` more fit: first those that were sent, then, if no client is
// attached, the unsent ones. Takes the bytes from the budget, or returns false if they do not fit.
bool Session::MakeRoom(size_t bytes) {
  auto over = [&] {
    return events_.size() >= limits_.max_ring_events || bytes_ + bytes > limits_.max_ring_bytes;
  };
  while (over() && !events_.empty() && (confirmed_ > 0 || !outlet_)) DropFront();
  while (!budget_->Take(bytes)) {
    if (events_.empty() || (confirmed_ == 0 && outlet_)) return false;
    DropFront();
  }
  return true;
}

void Session::DropFront() {
  const size_t bytes = events_.front().charged;
  bytes_ -= bytes;
  budget_->Give(bytes);
  events_.pop_front();
  if (next_ > 0) {
    --next_;
  } else {
    ++lost_;
    next_chunk_ = 0;
  }
  if (confirmed_ > 0) --confirmed_;
}

}  // namespace pie::server
