#include "cli/monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/terminal.h"

namespace pie::cli {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(500);
constexpr size_t kBarCells = 40;

std::string Bar(uint64_t used, uint64_t total) {
  const size_t full = total == 0 ? 0 : static_cast<size_t>(used * kBarCells / total);
  std::string bar;
  for (size_t i = 0; i < kBarCells; ++i) bar += i < full ? "█" : "░";
  return bar;
}

}  // namespace

std::string MonitorText(server::Service& service, const Sample& before, Sample* now,
                        double seconds) {
  std::string text;
  *now = {.launches = service.launches, .messages = service.messages};
  auto rate = [&](uint64_t new_count, uint64_t old_count) {
    return static_cast<double>(new_count - old_count) / seconds;
  };
  const host::EngineStats stats = service.engine.stats();
  text +=
      fmt::format("instances {:>6}   connections {:>6}   sessions {:>6}   launches/s {:>8.1f}\n",
                  stats.instances, service.connections.load(), service.sessions.size(),
                  rate(now->launches, before.launches));
  for (host::LoadedModel& loaded : service.engine.models()) {
    const SchedulerStats model = loaded.scheduler->stats();
    now->steps += model.steps;
    now->tokens += model.tokens;
    text += fmt::format("{}: pages {} {}/{}   queued {}   contexts {}   step {:.2f} ms\n",
                        loaded.model.name, Bar(model.pages_used, model.pages_total),
                        model.pages_used, model.pages_total, model.queued, model.sequences,
                        model.last_step_seconds * 1e3);
  }
  const uint64_t steps = now->steps - before.steps;
  const uint64_t tokens = now->tokens - before.tokens;
  text += fmt::format(
      "tokens/s {:>10.1f}   batches/s {:>8.1f}   batch {:>6.1f} tokens   "
      "messages/s {:>8.1f}\n",
      rate(now->tokens, before.tokens), rate(now->steps, before.steps),
      steps == 0 ? 0.0 : static_cast<double>(tokens) / static_cast<double>(steps),
      rate(now->messages, before.messages));
  return text;
}

Monitor::Monitor(server::Service& service) : service_(service), thread_([this] { Run(); }) {}

Monitor::~Monitor() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Monitor::Run() {
  Sample before;
  auto last = std::chrono::steady_clock::now();
  const bool terminal = IsTerminal(STDOUT_FILENO);
  size_t lines = 0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kEvery, [this] { return stop_; })) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last).count();
    last = now;
    Sample sample;
    const std::string text = MonitorText(service_, before, &sample, seconds);
    before = sample;
    // On a terminal, the view is redrawn in place; elsewhere the lines are appended.
    if (terminal && lines > 0) fmt::print("\x1b[{}A\x1b[J", lines);
    fmt::print("{}", text);
    std::fflush(stdout);
    lines = static_cast<size_t>(std::ranges::count(text, '\n'));
  }
}

}  // namespace pie::cli
