// Chain: passes that follow one another without the caller. Each feeds the token that the one
// before it chose, in the very next batch; no guest is woken between them.
//
// A pass may choose several tokens. Tokens that the rules force are fed after the chosen one, and
// are not sampled. Drafts are guesses of the tokens that come next: they are fed too, and every row
// of them is sampled with the seed and the mask of its token. While the device chooses the same
// tokens as the drafts, the row of the next draft counts too. So the tokens are the same with and
// without drafts.
//
// A chain ends with a stop token, at its limit, when its text is complete, with an error, or
// because another operation was asked of its sequence: that operation follows the pass under way.
// The Forward's `done` says that the chain has ended; the tokens come one by one through `give`.
//
// Owner: the Forward that carries it, so the step thread once that is queued. The callbacks are
// called there: be quick, never block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "base/result.h"
#include "kv/prefix_index.h"
#include "sched/drafter.h"

namespace pie {

struct BackendInfo;
struct Forward;
class RecentTokens;
struct ScheduledPass;
class Scheduler;

// A model that guesses the tokens of another one, which has the same vocabulary.
struct DraftModel {
  Scheduler* scheduler = nullptr;  // it outlives the chains that it guesses for
  CacheSalt salt;                  // whose pages its sequences share
};

struct Chain {
  enum class End : uint8_t { kStop, kLimit, kComplete };

  uint32_t max_tokens = 1;      // at least 1
  std::vector<uint32_t> stops;  // sorted
  uint32_t given = 0;           // tokens that were given before the first pass
  bool single = false;          // ends after its first pass, whatever that chooses; may have probes

  // Returns the seed of token `step`, from 1 on; token 0 has the Forward's own seed. A pure
  // function, because it may be called for passes that are taken back.
  std::move_only_function<uint64_t(uint32_t step)> seed;
  // Takes a token, also a stop token, and says whether the chain ends with it.
  std::move_only_function<void(uint32_t token, std::optional<End> end)> give;
  // Asks whether a pass may feed this number of tokens. An error ends the chain and leaves its
  // sequence whole. Null: yes.
  std::move_only_function<Status(uint32_t tokens)> admit;
  // Limit on the tokens that are fed after the first pass, and the error with which the chain
  // fails beyond it. Drafts stay within the limit.
  uint64_t room = UINT64_MAX;
  Error no_room;
  // Guesses tokens ahead. Null: there is no drafter.
  std::unique_ptr<Drafter> drafter;
  // The scheduler makes a drafter when the first pass has run: a ModelDrafter if there is a draft
  // model, else a SuffixDrafter. `recent` may be null.
  bool speculate = false;
  std::shared_ptr<RecentTokens> recent;
  std::optional<DraftModel> draft_model;
  // For a single pass: receives the draft for the pass after it, and the position of the first
  // token of the draft.
  std::move_only_function<void(std::vector<uint32_t> draft, uint32_t position)> propose;
};

// Checks the chain of a Forward. A Forward without a chain is valid.
Status CheckChain(const Forward& forward);

// Finds the sampler that chooses the tokens of a pass, one per row. Returns none if no sampler or
// several do so. All other samples are probes.
std::optional<size_t> ChooserOf(const Forward& forward);

// Adds the drafts of a chain's pass after its tokens. The sampler and the probes that read the
// last token read the drafts too. The positions count on from the last one, or are given.
void AppendDrafts(Forward& forward, const std::vector<uint32_t>& draft,
                  const std::vector<uint32_t>* positions = nullptr);
// Sets the keys of the rows that choose tokens. The first of these rows chooses token `step` of the
// chain, and draws as row `first_row`.
void SetDraws(Forward& forward, uint32_t step, uint32_t first_row);

// Returns whether the next pass of the chain may be submitted while `pass` is in flight. The device
// then carries the token over (batch.h), so the host must not need to know it. A pass of several
// rows, such as a prompt, must end first.
bool MayGoAhead(const ScheduledPass& pass);
// The seed of that next pass.
uint64_t SeedAhead(ScheduledPass& pass);

// Returns the token that a pass with slow rules has chosen, for them to work ahead before FollowOn.
// Returns none if the rules are quick, or need not know the token.
std::optional<uint32_t> TokenForSlowRules(const ScheduledPass& pass, std::span<const Slot> slots);
// Gives the tokens of a pass that has run, and makes the pass its own successor. False: the chain
// ends with the last of them, or `last` says so. `pass` carries a chain. If the successor is in
// flight already and the chain ends here, the caller takes it back. In any case the caller takes
// back the drafts that were not chosen (pass.rejected). A single pass loses the slots of the rows
// that these have chosen and shown. AddDrafts comes before the successor runs.
Result<bool> FollowOn(ScheduledPass& pass, std::vector<Slot>& slots, bool last);
// Adds the guesses of the drafter to a chain's next pass, if it has one. False: they are being
// guessed (drafter.h), and this is called again when they are there. Does nothing to a pass that
// went ahead.
bool AddDrafts(ScheduledPass& pass);
// Begins a chain's next pass without the drafts that it waits for.
void GiveUpDrafts(ScheduledPass& pass);

}  // namespace pie
