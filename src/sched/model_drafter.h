// ModelDrafter: guesses with a second, smaller model of the same vocabulary.
//
// The draft model has a sequence of its own on its own scheduler. A chain on it runs ahead of the
// text while the device of the large model computes. As long as the text agrees with its guesses,
// the next ones are drafts; where it does not, the sequence is taken back to the last token that
// both have. Nobody waits for the draft model: what is not guessed in time is not drafted.
//
// It guesses with the sampler and the seeds of the chain, so that random choices agree where the
// two models do. How many tokens it drafts depends on what they cost, the draft model's passes
// included, and on how many of its guesses were right. Where guesses do not pay, it makes one now
// and then.
//
// One owner, the step thread of the large model; the guesses come from that of the draft model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backend/batch.h"
#include "base/ids.h"
#include "sched/draft_pace.h"
#include "sched/drafter.h"

namespace pie {

struct DraftModel;
class Scheduler;

class ModelDrafter final : public Drafter {
 public:
  // `text` is what the sequence holds and will be fed first; `step` is the number of the chain's
  // next token, and `seed` gives the seed of each.
  ModelDrafter(std::vector<uint32_t> text, const DraftModel& model, const SampleSpec& sampler,
               std::function<uint64_t(uint32_t step)> seed, uint32_t step, const StepTime& time);
  ~ModelDrafter() override;

  void Add(uint32_t token) override;
  void Judge(uint32_t drafted, uint32_t chosen) override;
  std::vector<uint32_t> Draft(uint32_t most) override;

 private:
  struct Guesses;

  bool has_failed() const;
  // Guesses anew what follows the text.
  void Begin();
  // Guesses what follows the guesses, which are `made` so far.
  void Extend(size_t made, uint32_t last);
  // A pass of the draft model that is fed the tokens at `position`, and the chain behind it.
  void Run(std::vector<uint32_t> tokens, size_t position);

  Scheduler& scheduler_;
  const SampleSpec sampler_;
  const std::function<uint64_t(uint32_t)> seed_;
  const StepTime& time_;
  DraftPace pace_;
  std::vector<uint32_t> text_;
  size_t before_;                     // tokens of the text before the chain's first
  SequenceId sequence_;               // of the draft model
  size_t known_ = 0;                  // tokens of the text that this sequence is known to hold
  size_t base_ = 0;                   // tokens of the text that the guesses follow
  bool waits_ = false;                // for guesses that are wanted though drafts do not pay
  std::shared_ptr<Guesses> guesses_;  // null: there are none
};

}  // namespace pie
