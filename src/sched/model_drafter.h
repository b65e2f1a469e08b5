// ModelDrafter: guesses with a second, smaller model of the same vocabulary.
//
// The draft model has a sequence of its own on its own scheduler. It guesses in turn with the large
// model: the chain's next pass waits for the guesses and verifies them all. Only the chain waits,
// and not for long (LaneTable::DraftPatience); the step thread runs the passes of others meanwhile.
// After a pass, the sequence is truncated to the last token that both models have.
//
// It guesses with the sampler and the seeds of the chain, so that random choices agree where the
// two models do. How many tokens it drafts depends on how many of its guesses were right, and on
// what they cost: their rows, and the time that the pass waits for them. Where guesses do not pay,
// it makes one now and then, and no pass waits for it.
//
// One owner, the step thread of the large model; the guesses come from that of the draft model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
  // next token, and `seed` gives the seed of each. Guesses end before a token that is not below
  // `vocab_size`: models of one tokenizer may have rows of logits of different lengths. `ready`
  // says that Draft can be called again. It is called by the step thread of the draft model, and
  // never after this object is destroyed.
  ModelDrafter(std::vector<uint32_t> text, const DraftModel& model, const SampleSpec& sampler,
               std::function<uint64_t(uint32_t step)> seed, uint32_t step, uint32_t vocab_size,
               const StepTime& time, std::function<void()> ready);
  ~ModelDrafter() override;

  void Add(uint32_t token) override;
  void Judge(uint32_t drafted, uint32_t chosen) override;
  std::optional<std::vector<uint32_t>> Draft(uint32_t most) override;
  void GiveUp() override;

 private:
  struct Guesses;

  // The cost of a guess besides its row, as a share of a pass.
  double Cost() const;
  // Notes that the pass has waited for the guesses until now, and that `made` of them are known.
  void NoteWait(size_t made);
  // Learns from a guess that no pass waited for.
  void JudgeProbe();
  // Asks for `count` guesses of the tokens after the text. Returns false if the draft model cannot
  // make them.
  bool Ask(uint32_t count, std::function<void()> ready);
  // How many tokens of the text, from the first, the draft model's sequence is known to hold.
  size_t TokensKept() const;
  // Drops the guesses that were asked for last; `ready` is not called for them.
  void Forget();

  Scheduler& scheduler_;
  const SampleSpec sampler_;
  const std::function<uint64_t(uint32_t)> seed_;
  const uint32_t vocab_size_;  // of the large model
  const StepTime& time_;
  const std::function<void()> ready_;
  DraftPace pace_;
  std::vector<uint32_t> text_;
  size_t before_;         // tokens of the text before the chain's first
  SequenceId sequence_;   // of the draft model
  size_t base_ = 0;       // tokens of the text that the guesses follow
  size_t fed_ = 0;        // tokens that were fed for them
  bool waits_ = false;    // a pass waits for the guesses
  bool probes_ = false;   // no pass waits, and the guess is judged at the next pass
  int64_t asked_ns_ = 0;  // when the guesses were asked for
  int64_t guess_ns_ = 0;  // how long the last pass waited for each guess; 0 = it is not known
  std::shared_ptr<Guesses> guesses_;  // null: none was asked for
};

}  // namespace pie
