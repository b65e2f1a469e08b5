#include "tax_guests.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "must.h"

namespace pie {
namespace {

using Steady = std::chrono::steady_clock;

double Ns(Steady::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

}  // namespace

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

Result<Backend::Ticket> LowerHalf::Submit(const Batch& batch) {
  const size_t members = batch.members.size();
  const bool decodes = batch.tokens.size() == members;
  const bool follows = decodes && members == steps_.members;
  steps_.members = decodes ? members : 0;
  if (follows && follow_.empty()) steps_.gaps.push_back(Ns(Steady::now() - steps_.ended));
  auto ticket = whole_.Submit(batch);
  if (ticket) follow_.push_back(follows);
  return ticket;
}

Result<BatchOutput> LowerHalf::Wait(Ticket ticket) {
  auto output = whole_.Wait(ticket);
  const auto now = Steady::now();
  if (follow_.front()) steps_.periods.push_back(Ns(now - steps_.ended));
  follow_.pop_front();
  steps_.ended = now;
  return output;
}

uint32_t PromptToken(uint32_t index, uint32_t place) {
  return 1000 + (index * 977 + place * 131) % 20'000;
}

BareGenerations::BareGenerations(Backend& backend, uint32_t count, uint32_t prompt, uint32_t steps)
    : loop_(backend, backend.info().total_pages / 2),
      prompt_(prompt),
      steps_(steps),
      sequences_(count) {
  for (uint32_t i = 0; i < count; ++i) {
    std::vector<uint32_t> tokens;
    for (uint32_t place = 0; place + 1 < prompt; ++place) tokens.push_back(PromptToken(i, place));
    loop_.Feed(sequences_[i], tokens);
  }
}

void BareGenerations::Rewind() {
  for (uint32_t i = 0; i < sequences_.size(); ++i) {
    sequences_[i].tokens = prompt_ - 1;
    sequences_[i].next = PromptToken(i, prompt_ - 1);
  }
}

double BareGenerations::Step() {
  Rewind();
  std::vector<double> periods;
  auto ended = Steady::now();
  for (uint32_t step = 0; step < steps_; ++step) {
    loop_.Step(sequences_);
    const auto now = Steady::now();
    periods.push_back(Ns(now - std::exchange(ended, now)));
  }
  return Median(std::move(periods));
}

double BareGenerations::Chain() {
  Rewind();
  const auto ended = loop_.Chain(sequences_, steps_);
  std::vector<double> periods;
  for (size_t i = 1; i < ended.size(); ++i) periods.push_back(Ns(ended[i] - ended[i - 1]));
  return Median(std::move(periods));
}

Guests::Guests(const std::string& file, Model model, Backend& whole,
               const SchedulerOptions& scheduling) {
  host::EngineOptions options;
  options.models.push_back(
      {std::move(model),
       std::make_unique<Scheduler>(std::make_unique<LowerHalf>(whole, steps_), scheduling)});
  engine_ = Must(host::Engine::Start(std::move(options)));
  std::ifstream wasm(file, std::ios::binary);
  host::Manifest manifest;
  manifest.name = "guest";
  manifest.version = "0.1.0";
  Must(engine_->AddProgram(manifest, std::string(std::istreambuf_iterator<char>(wasm), {}), {}));
}

std::vector<double> Guests::Run(const char* mode, uint32_t count, uint32_t n, uint32_t prompt) {
  std::vector<std::shared_ptr<host::Process>> processes;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string input =
        fmt::format(R"({{"mode": "{}", "n": {}, "index": {}, "peers": {}, "prompt": {}}})", mode, n,
                    i, count, prompt);
    processes.push_back(Must(engine_->Launch("guest", input, {})));
  }
  std::vector<double> values;
  for (const auto& process : processes) {
    const wasm::Exit exit = process->Wait();
    if (exit.kind != wasm::Exit::Kind::kReturned) {
      Must<int>(Fail(Code::kInternal, "{}", exit.text));
    }
    values.push_back(nlohmann::json::parse(exit.text).get<double>());
  }
  engine_->WaitIdle(1000);
  return values;
}

}  // namespace pie
