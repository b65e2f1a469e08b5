#include "sched/model_drafter.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "sched/pass.h"
#include "sched/scheduler.h"

namespace pie {
namespace {

// Guesses of one chain of the draft model. Another follows when fewer are left.
constexpr uint32_t kGuesses = 8;

}  // namespace

// What the draft model has chosen. Written by its step thread.
struct ModelDrafter::Guesses {
  std::mutex mutex;
  std::vector<uint32_t> tokens;
  bool running = true;
  bool failed = false;  // nothing more comes
};

ModelDrafter::ModelDrafter(std::vector<uint32_t> text, const DraftModel& model,
                           const SampleSpec& sampler, std::function<uint64_t(uint32_t)> seed,
                           uint32_t step, const StepTime& time)
    : scheduler_(*model.scheduler),
      sampler_(sampler),
      seed_(std::move(seed)),
      time_(time),
      pace_(time),
      text_(std::move(text)),
      before_(text_.size() - step),
      sequence_(model.scheduler->Create(model.salt)) {}

ModelDrafter::~ModelDrafter() {
  scheduler_.Drop(sequence_);
}

void ModelDrafter::Add(uint32_t token) {
  text_.push_back(token);
}

void ModelDrafter::Judge(uint32_t drafted, uint32_t chosen) {
  pace_.Judge(drafted, chosen);
}

std::vector<uint32_t> ModelDrafter::Draft(uint32_t most) {
  if (has_failed()) return {};
  const double pass_s = static_cast<double>(time_.last_latency_ns) * 1e-9;
  const double guess_s = scheduler_.stats().last_step_seconds;
  uint32_t length = pace_.Length(most, pass_s > 0 ? guess_s / pass_s : 0);
  if (length == 0) {
    if (std::exchange(waits_, false)) {
      length = 1;
    } else if (pace_.Probe()) {
      waits_ = true;  // the guess is there at the next pass
      Begin();
      return {};
    } else {
      return {};
    }
  }
  if (!guesses_) {
    Begin();
    return {};
  }
  const std::span<const uint32_t> since = std::span(text_).subspan(base_);
  std::unique_lock lock(guesses_->mutex);
  const std::vector<uint32_t>& made = guesses_->tokens;
  const auto apart = std::ranges::mismatch(since, made);
  const auto agreed = static_cast<size_t>(apart.in1 - since.begin());
  // The last token that a chain gave was perhaps not fed.
  known_ = base_ + std::min(agreed, made.empty() ? 0 : made.size() - 1);
  if (agreed < since.size()) {  // they part, or the draft model is behind
    lock.unlock();
    Begin();
    return {};
  }
  const auto first = made.begin() + static_cast<std::ptrdiff_t>(agreed);
  const size_t left = made.size() - agreed;
  std::vector<uint32_t> draft(first,
                              first + static_cast<std::ptrdiff_t>(std::min<size_t>(left, length)));
  if (!guesses_->running && left - draft.size() < kGuesses) {
    guesses_->running = true;
    const size_t count = made.size();
    const uint32_t last = made.back();
    lock.unlock();
    Extend(count, last);
  }
  return draft;
}

bool ModelDrafter::has_failed() const {
  if (!guesses_) return false;
  const std::lock_guard lock(guesses_->mutex);
  return guesses_->failed;
}

void ModelDrafter::Begin() {
  const size_t keep = std::min(known_, text_.size() - 1);
  if (guesses_) scheduler_.Truncate(sequence_, static_cast<uint32_t>(keep));
  base_ = text_.size();
  known_ = base_;  // once what follows has run, and so before anything else is asked
  guesses_ = std::make_shared<Guesses>();
  Run({text_.begin() + static_cast<std::ptrdiff_t>(keep), text_.end()}, keep);
}

void ModelDrafter::Extend(size_t made, uint32_t last) {
  Run({last}, base_ + made - 1);
}

void ModelDrafter::Run(std::vector<uint32_t> tokens, size_t position) {
  Forward forward;
  forward.sequence = sequence_;
  for (size_t i = 0; i < tokens.size(); ++i) {
    forward.positions.push_back(static_cast<uint32_t>(position + i));
  }
  const auto row = static_cast<uint32_t>(tokens.size()) - 1;
  const auto step = static_cast<uint32_t>(position + tokens.size() - before_);
  forward.tokens = std::move(tokens);
  forward.samples = {sampler_};
  forward.samples[0].rows = {row};
  std::vector<uint64_t> seeds;
  for (uint32_t i = 0; i < kGuesses; ++i) seeds.push_back(seed_(step + i));
  forward.seed = seeds[0];
  if (row > 0) {
    // Every guess draws as a pass of one token would.
    forward.first_draw = row;
    forward.draws = {{.seed = seeds[0], .row = 0}};
  }
  forward.chain = std::make_unique<Chain>();
  forward.chain->max_tokens = kGuesses;
  forward.chain->seed = [seeds](uint32_t i) { return seeds[std::min<size_t>(i, kGuesses - 1)]; };
  forward.chain->give = [guesses = guesses_](uint32_t token, std::optional<Chain::End>) {
    const std::lock_guard lock(guesses->mutex);
    guesses->tokens.push_back(token);
  };
  forward.done = [guesses = guesses_](Result<std::vector<Slot>> result) {
    const std::lock_guard lock(guesses->mutex);
    guesses->running = false;
    guesses->failed |= !result;
  };
  // A text that has become too long for the draft model is drafted no longer.
  const uint64_t length = position + forward.tokens.size() + kGuesses;
  if (!CheckLength(length, scheduler_.info()) || !Validate(forward, scheduler_.info())) {
    const std::lock_guard lock(guesses_->mutex);
    guesses_->failed = true;
    return;
  }
  scheduler_.Execute(std::move(forward));
}

}  // namespace pie
