#include "server/sessions.h"

#include <algorithm>
#include <functional>
#include <map>

namespace pie::server {

Sessions::Sessions(host::Engine& engine, const Limits& limits, size_t max_processes)
    : engine_(engine),
      limits_(limits),
      max_processes_(max_processes),
      buffered_(limits.max_buffered_bytes, engine.users().share()),
      places_(limits.max_sessions, engine.users().share()),
      running_places_(max_processes != 0 ? max_processes : limits.max_sessions,
                      engine.users().share()),
      running_(std::make_shared<std::atomic<size_t>>(0)) {}

Result<std::shared_ptr<Session>> Sessions::Launch(const std::string& program,
                                                  std::string_view input, Session::Options options,
                                                  std::optional<uint64_t> token_budget,
                                                  std::shared_ptr<Outlet> outlet) {
  const std::string username = options.username;
  Session::Places places{.session = host::Charge(places_.Of(username)),
                         .running = host::Charge(running_places_.Of(username))};
  if (!places.session.Grow(1)) {
    return Fail(Code::kExhausted,
                "{} of your processes run, or have ended with events that your clients have not "
                "read; read those first",
                places.session.budget()->used());
  }
  if (max_processes_ != 0 && !places.running.Grow(1)) {
    return Fail(Code::kExhausted,
                "{} processes are already running (server.max_concurrent_processes), {} of them "
                "yours; try again later",
                running_->load(), places.running.budget()->used());
  }
  options.program = program;
  options.running = running_;
  auto session = std::make_shared<Session>(std::move(options), limits_, buffered_.Of(username),
                                           std::move(places));
  // Attaches before the process can send an event: it may send faster than a ring without a reader
  // can hold.
  std::optional<uint64_t> seen;
  if (session->options().numbered) seen = 0;
  PIE_RETURN_IF_ERROR(session->Attach(std::move(outlet), seen));
  host::Process::Options launch{.username = username, .listener = session, .mcp = session};
  if (token_budget) launch.token_budget = std::make_shared<host::ByteBudget>(*token_budget);
  session->SetProcess(PIE_TRY(engine_.Launch(program, input, std::move(launch))));
  std::lock_guard lock(mutex_);
  sessions_.emplace(session->id(), session);
  return session;
}

Result<std::shared_ptr<Session>> Sessions::Find(std::string_view id, std::string_view user) {
  std::lock_guard lock(mutex_);
  auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->options().username != user) {
    return Fail(Code::kNotFound, "no process '{}' exists (it may have ended)", id.substr(0, 64));
  }
  return found->second;
}

std::vector<std::shared_ptr<Session>> Sessions::Of(std::string_view user) {
  std::vector<std::shared_ptr<Session>> own;
  {
    // Held briefly, because the IO thread waits for it.
    std::lock_guard lock(mutex_);
    for (const auto& [id, session] : sessions_) {
      if (session->options().username == user) own.push_back(session);
    }
  }
  std::erase_if(own, [](const auto& session) { return session->ended_at().has_value(); });
  return own;
}

void Sessions::Remove(const std::string& id) {
  std::shared_ptr<Session> removed;  // destroyed after unlocking
  std::lock_guard lock(mutex_);
  auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  removed = std::move(found->second);
  sessions_.erase(found);
}

void Sessions::Sweep() {
  using Ended = std::pair<std::chrono::steady_clock::time_point, std::shared_ptr<Session>>;
  std::vector<Ended> ended;
  const auto oldest =
      std::chrono::steady_clock::now() - std::chrono::seconds(limits_.ended_session_secs);
  std::lock_guard lock(mutex_);
  for (const auto& [id, session] : sessions_) {
    if (auto at = session->ended_at(); at && !session->attached()) ended.emplace_back(*at, session);
  }
  std::ranges::sort(ended, std::greater<>(), &Ended::first);  // the newest first
  size_t kept = 0;
  std::map<std::string_view, size_t> kept_of;  // by user
  for (const auto& [at, session] : ended) {
    size_t& own = kept_of[session->options().username];
    if (at >= oldest && kept < limits_.max_ended_sessions &&
        host::InShare(own + 1, limits_.max_ended_sessions - kept,
                      engine_.users().share().share())) {
      ++kept;
      ++own;
    } else {
      sessions_.erase(session->id());
    }
  }
}

void Sessions::CancelAll() {
  std::vector<std::shared_ptr<host::Process>> running;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, session] : sessions_) {
      if (auto process = session->process()) running.push_back(std::move(process));
    }
  }
  for (const auto& process : running) process->Cancel();
}

size_t Sessions::size() {
  std::lock_guard lock(mutex_);
  return sessions_.size();
}

}  // namespace pie::server
