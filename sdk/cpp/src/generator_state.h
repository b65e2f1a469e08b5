// The state that a Generator and its steps share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inferlet/generate.h"
#include "pass.h"

namespace inferlet::detail {

struct ProbeAt {
  uint32_t index;
  Probe probe;
};

struct GeneratorState {
  GeneratorState(std::shared_ptr<ContextState> of, Sampler chooser)
      : context(std::move(of)), sampler(chooser) {}

  // Set by the builder methods.
  std::shared_ptr<ContextState> context;
  Sampler sampler;
  std::optional<size_t> max_tokens;
  std::optional<size_t> horizon;
  std::vector<uint32_t> stops;
  std::vector<std::unique_ptr<Constraint>> constraints;
  std::vector<uint32_t> static_mask;
  std::unique_ptr<Speculator> speculator;
  bool engine_drafts = false;
  bool thinks_first = false;
  std::optional<Adapter> adapter;
  std::optional<int64_t> zo_seed;
  std::optional<uint64_t> seed;
  std::vector<ProbeAt> probes;
  std::string fault;  // of the first builder method that was called wrongly

  uint64_t steps = 0;
  size_t generated = 0;
  bool expects_anew = true;  // the engine does not know how many passes are still to come
  bool done = false;
  bool open_step = false;       // the program has a step that it has not begun to execute
  std::vector<uint32_t> fresh;  // accepted; constraints and speculator do not know them yet
  std::optional<std::vector<uint32_t>> mask;  // of the next step; none while it is not known
  Drafts drafts_of_engine;                    // for the next step
  bool was_reset = false;                     // the speculator knows of the end
  // How to take back what a step accepted by itself, as long as Accept may replace it.
  struct Revocable {
    uint32_t buffered;  // tokens in the context's buffer
    uint32_t cached;    // confirmed drafts, in its pages
  };
  std::optional<Revocable> revocable;

  // Keeps an error of a builder method, for the generation to fail with.
  void Note(const Result<void>& set) {
    if (!set && fault.empty()) fault = set.error();
  }
  // Before a step or a chain: tells constraints and speculator what was accepted, and works out the
  // mask, unless the engine applies the constraints, which are matchers then. False at the end of
  // the generation.
  Result<bool> Advance(bool engine_matches);
  Result<bool> Advance() { return Advance(EngineMatches()); }
  // Whether the engine applies the constraints to the steps. It does where tokens are drafted,
  // because a mask holds for one position only.
  bool EngineMatches() const { return (speculator || engine_drafts) && AreMatchers(); }
  bool AreMatchers() const;
  std::vector<const Matcher*> Matchers() const;
  // Tells the engine how many passes are still to come, from which it bids. It counts them down by
  // itself.
  void Expect();
  // The tokens before the first stop id, as many as the limit allows. Counts them, and notes the
  // end.
  std::vector<uint32_t> Cut(std::span<const uint32_t> tokens);
  // The guesses to verify in this step, after `position`.
  Result<Drafts> NextDrafts(uint32_t position);
  size_t Room() const;  // how many tokens may still be accepted
  void Enter(std::span<const uint32_t> tokens);

 private:
  Result<void> AdvanceConstraints(std::span<const uint32_t> news, bool engine_matches);
  std::string NothingAllowed() const;
};

struct StepState {
  explicit StepState(std::shared_ptr<GeneratorState> of)
      : generator(std::move(of)), each_step(generator->probes.size()) {}

  std::shared_ptr<GeneratorState> generator;
  size_t each_step;             // how many of the generator's probes this step has
  std::vector<ProbeAt> probes;  // its own
  bool cleared = false;
  bool executed = false;
};

// The pass of a step over the buffer, and what is read of it.
std::shared_ptr<PassState> BuildPass(const StepState& step);

Task<Result<Output>> ExecuteStep(std::shared_ptr<StepState> step);

}  // namespace inferlet::detail
