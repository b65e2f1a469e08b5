#include "sched/model_drafter.h"

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "sched/pass.h"
#include "sched/scheduler.h"

namespace pie {
namespace {

// Guesses of one pass.
constexpr uint32_t kGuesses = 8;

}  // namespace

// The guesses of the draft model. Its step thread writes them.
struct ModelDrafter::Guesses {
  std::mutex mutex;
  std::vector<uint32_t> tokens;
  bool running = true;
  bool failed = false;          // no further guess follows
  std::function<void()> ready;  // called at the end; null: no pass waits
};

ModelDrafter::ModelDrafter(std::vector<uint32_t> text, const DraftModel& model,
                           const SampleSpec& sampler, std::function<uint64_t(uint32_t)> seed,
                           uint32_t step, uint32_t vocab_size, const StepTime& time,
                           std::function<void()> ready)
    : scheduler_(*model.scheduler),
      sampler_(sampler),
      seed_(std::move(seed)),
      vocab_size_(vocab_size),
      time_(time),
      ready_(std::move(ready)),
      pace_(time, /*right=*/0.75),
      text_(std::move(text)),
      before_(text_.size() - step),
      sequence_(model.scheduler->Create(model.salt)) {}

ModelDrafter::~ModelDrafter() {
  Forget();
  scheduler_.Drop(sequence_);
}

void ModelDrafter::Add(uint32_t token) {
  text_.push_back(token);
}

void ModelDrafter::Judge(uint32_t drafted, uint32_t chosen) {
  pace_.Judge(drafted, chosen);
}

std::optional<std::vector<uint32_t>> ModelDrafter::Draft(uint32_t most) {
  using Tokens = std::vector<uint32_t>;
  if (guesses_) {
    const std::lock_guard lock(guesses_->mutex);
    if (guesses_->failed) return Tokens();
    if (waits_) {
      if (guesses_->running) return std::nullopt;
      waits_ = false;
      NoteWait(guesses_->tokens.size());
      const auto guesses =
          std::span(guesses_->tokens).first(std::min<size_t>(guesses_->tokens.size(), most));
      const auto end =
          std::ranges::find_if(guesses, [this](uint32_t token) { return token >= vocab_size_; });
      return Tokens(guesses.begin(), end);
    }
  }
  if (std::exchange(probes_, false)) JudgeProbe();
  const uint32_t length = pace_.Best(std::min(most, kGuesses), Cost());
  if (length > 0) {
    waits_ = Ask(length, ready_);
    return waits_ ? std::nullopt : std::optional(Tokens());
  }
  if (pace_.Probe()) {
    guess_ns_ = 0;  // the draft model may be faster by now
    probes_ = Ask(1, nullptr);
  }
  return Tokens();
}

void ModelDrafter::GiveUp() {
  if (!std::exchange(waits_, false)) return;
  Forget();
  const std::lock_guard lock(guesses_->mutex);
  NoteWait(guesses_->tokens.size());
}

double ModelDrafter::Cost() const {
  const auto pass_s = static_cast<double>(time_.last_latency_ns) * 1e-9;
  if (pass_s <= 0) return 0;
  const double step_s = scheduler_.stats().last_step_seconds;
  return (guess_ns_ > 0 ? static_cast<double>(guess_ns_) * 1e-9 : step_s) / pass_s;
}

void ModelDrafter::NoteWait(size_t made) {
  // The first guesses wait for the prompt, the others only for what was chosen since the last.
  if (fed_ > kGuesses + 1) return;
  guess_ns_ = (time_.now_ns - asked_ns_) / static_cast<int64_t>(std::max<size_t>(made, 1));
}

void ModelDrafter::JudgeProbe() {
  const std::lock_guard lock(guesses_->mutex);
  if (guesses_->tokens.empty() || text_.size() <= base_) return;
  pace_.Judge(1, guesses_->tokens[0] == text_[base_] ? 1 : 0);
}

size_t ModelDrafter::TokensKept() const {
  if (!guesses_) return 0;
  const std::lock_guard lock(guesses_->mutex);
  const std::vector<uint32_t>& made = guesses_->tokens;
  const std::span<const uint32_t> since = std::span(text_).subspan(base_);
  const auto agreed = std::ranges::mismatch(since, made).in1 - since.begin();
  // The last guess may not have been fed.
  const size_t fed = made.empty() ? 0 : made.size() - 1;
  return std::min(base_ + std::min(static_cast<size_t>(agreed), fed), text_.size() - 1);
}

void ModelDrafter::Forget() {
  if (!guesses_) return;
  const std::lock_guard lock(guesses_->mutex);
  guesses_->ready = nullptr;
}

bool ModelDrafter::Ask(uint32_t count, std::function<void()> ready) {
  const size_t kept = TokensKept();
  Forget();
  if (guesses_) scheduler_.Truncate(sequence_, static_cast<uint32_t>(kept));
  base_ = text_.size();
  fed_ = base_ - kept;
  asked_ns_ = time_.now_ns;
  guesses_ = std::make_shared<Guesses>();
  guesses_->ready = std::move(ready);

  Forward forward;
  forward.sequence = sequence_;
  forward.tokens.assign(text_.begin() + static_cast<std::ptrdiff_t>(kept), text_.end());
  for (size_t i = kept; i < base_; ++i) forward.positions.push_back(static_cast<uint32_t>(i));
  const auto row = static_cast<uint32_t>(fed_) - 1;
  forward.samples = {sampler_};
  forward.samples[0].rows = {row};
  std::vector<uint64_t> seeds;
  for (uint32_t i = 0; i < count; ++i) {
    seeds.push_back(seed_(static_cast<uint32_t>(base_ - before_) + i));
  }
  forward.seed = seeds[0];
  if (row > 0) {
    // Every guess draws as a pass of one token would.
    forward.first_draw = row;
    forward.draws = {{.seed = seeds[0], .row = 0}};
  }
  forward.chain = std::make_unique<Chain>();
  forward.chain->max_tokens = count;
  forward.chain->seed = [seeds](uint32_t i) {
    return seeds[std::min(seeds.size() - 1, size_t{i})];
  };
  forward.chain->give = [guesses = guesses_](uint32_t token, std::optional<Chain::End>) {
    const std::lock_guard lock(guesses->mutex);
    guesses->tokens.push_back(token);
  };
  forward.done = [guesses = guesses_](Result<std::vector<Slot>> result) {
    const std::lock_guard lock(guesses->mutex);
    guesses->running = false;
    guesses->failed |= !result;
    if (guesses->ready) guesses->ready();
  };
  // Drafting stops when the text has become too long for the draft model.
  if (!CheckLength(base_ + count, scheduler_.info()) || !Validate(forward, scheduler_.info())) {
    guesses_->failed = true;
    return false;
  }
  scheduler_.Execute(std::move(forward));
  return true;
}

}  // namespace pie
