#include "sched/chain.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "backend/backend.h"
#include "backend/sampling.h"
#include "sched/drafter.h"
#include "sched/forced_tokens.h"
#include "sched/pass.h"

namespace pie {
namespace {

// Forced tokens of one pass. More of them follow with the next pass.
constexpr uint32_t kForcedTokens = 64;
constexpr uint32_t kDraftTokens = 32;
constexpr uint32_t kProposedTokens = 8;

bool ChoosesTokens(SampleSpec::Kind kind) {
  return kind < SampleSpec::kFirstProbe;
}

bool SamplesFirstRow(const Forward& forward) {
  const std::vector<uint32_t>& rows = forward.samples[0].rows;
  return rows.size() == 1 && rows[0] == 0;
}

// The last row of the input and the rows of its drafts.
bool SamplesLastRows(const Forward& forward, const SampleSpec& chooser) {
  const std::vector<uint32_t>& rows = chooser.rows;
  if (forward.drafts >= forward.tokens.size() || rows.size() != forward.drafts + 1) return false;
  const auto first = static_cast<uint32_t>(forward.tokens.size() - 1 - forward.drafts);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != first + i) return false;
  }
  return true;
}

bool IsStop(const Chain& chain, uint32_t token) {
  return std::ranges::binary_search(chain.stops, token);
}

// Counts and gives a token that the device chose. Returns why the chain ends with it, if it does.
Result<std::optional<Chain::End>> GiveChosen(ScheduledPass& pass, uint32_t token) {
  Chain& chain = *pass.forward.chain;
  ++pass.chained;
  std::optional<Chain::End> end;
  Status accepted;
  if (IsStop(chain, token)) {
    end = Chain::End::kStop;
  } else if (pass.forward.rules) {
    const Result<bool> complete = pass.forward.rules->Accept(token);
    if (!complete) {
      accepted = std::unexpected(complete.error());
    } else if (*complete) {
      end = Chain::End::kComplete;
    }
  }
  if (!end && pass.chained >= chain.max_tokens) end = Chain::End::kLimit;
  chain.give(token, end);
  if (!end) PIE_RETURN_IF_ERROR(accepted);
  return end;
}

// Returns how many more tokens the next pass may feed, at most `most`, so that one token is left to
// choose. The chain has given `given` tokens, and the pass already feeds `fed`.
uint32_t MoreTokens(const Chain& chain, uint32_t given, uint32_t most, uint64_t fed) {
  const uint32_t left = chain.max_tokens - given;  // at least 1
  const uint64_t room = chain.room > fed ? chain.room - fed : 0;
  return static_cast<uint32_t>(std::min<uint64_t>({most, left - 1, room}));
}

// Completes a chain's next pass, whose tokens are known.
void Complete(ScheduledPass& pass, std::vector<uint32_t> draft) {
  Forward& forward = pass.forward;
  if (forward.rules) forward.rules->Prepare(draft);
  const bool own_key = forward.tokens.size() > 1 || !draft.empty();
  AppendDrafts(forward, draft);
  if (own_key) SetDraws(forward, pass.chained, 0);
}

// Returns the slots chosen at the last row of the input and at its drafts. Every row that a sample
// of a chain reads gives one slot.
Result<std::span<const Slot>> ChoicesOf(const Forward& forward, std::span<const Slot> slots) {
  const std::optional<size_t> chooser = ChooserOf(forward);
  if (!chooser || slots.size() != SizeOfResult(forward.samples, BackendInfo{}).slots) {
    return Fail(Code::kInternal, "the device chose no token");
  }
  size_t first = 0;
  for (size_t i = 0; i < *chooser; ++i) first += forward.samples[i].rows.size();
  return slots.subspan(first, forward.samples[*chooser].rows.size());
}

// Keeps the slots of the first `rows` rows.
void KeepRows(const Forward& forward, uint32_t rows, std::vector<Slot>& slots) {
  size_t from = 0, to = 0;
  for (const SampleSpec& spec : forward.samples) {
    for (const uint32_t row : spec.rows) {
      if (row < rows) std::swap(slots[to++], slots[from]);
      ++from;
    }
  }
  slots.resize(to);
}

}  // namespace

Result<std::vector<uint32_t>> GiveForced(Chain& chain, TokenRules& rules, uint32_t given,
                                         uint64_t fed) {
  std::vector<uint32_t> forced;
  const uint32_t most = MoreTokens(chain, given, kForcedTokens, fed);
  if (most == 0) return forced;
  for (const uint32_t token : rules.Forced(most)) {
    if (IsStop(chain, token)) break;
    PIE_RETURN_IF_ERROR(rules.Accept(token));
    chain.give(token, std::nullopt);
    forced.push_back(token);
  }
  return forced;
}

Status CheckChain(const Forward& forward) {
  if (!forward.chain) return {};
  if (forward.chain->max_tokens == 0) {
    return Fail(Code::kInvalid, "a chain without tokens: ask for at least one");
  }
  if (!forward.attention.empty()) {
    return Fail(Code::kInvalid,
                "a chain attends causally: an attention mask holds for the rows of one pass");
  }
  const std::optional<size_t> chooser = ChooserOf(forward);
  if (!forward.chain->single && (!chooser || forward.samples.size() != 1)) {
    return Fail(Code::kInvalid, "a chain needs one sampler that chooses tokens, and no probes");
  }
  if (!chooser) {
    return Fail(Code::kInvalid,
                "a pass with drafts needs one sampler that chooses one token; all others are "
                "probes");
  }
  if (!SamplesLastRows(forward, forward.samples[*chooser])) {
    return Fail(Code::kInvalid, "a chain samples the last row of its input, and no other");
  }
  return {};
}

std::optional<size_t> ChooserOf(const Forward& forward) {
  std::optional<size_t> chooser;
  for (size_t i = 0; i < forward.samples.size(); ++i) {
    if (!ChoosesTokens(forward.samples[i].kind)) continue;
    if (chooser || SlotsPerRow(forward.samples[i]) != 1) return std::nullopt;
    chooser = i;
  }
  return chooser;
}

void AppendDrafts(Forward& forward, const std::vector<uint32_t>& draft,
                  const std::vector<uint32_t>* positions) {
  const auto row = static_cast<uint32_t>(forward.tokens.size());
  const uint32_t position = forward.positions.back() + 1;
  for (uint32_t i = 0; i < draft.size(); ++i) {
    forward.tokens.push_back(draft[i]);
    forward.positions.push_back(positions != nullptr ? (*positions)[i] : position + i);
  }
  for (SampleSpec& spec : forward.samples) {
    if (std::ranges::find(spec.rows, row - 1) == spec.rows.end()) continue;
    for (uint32_t i = 0; i < draft.size(); ++i) spec.rows.push_back(row + i);
  }
  forward.drafts = static_cast<uint32_t>(draft.size());
}

void SetDraws(Forward& forward, uint32_t step, uint32_t first_row) {
  const auto rows = static_cast<uint32_t>(forward.tokens.size());
  forward.first_draw = rows - 1 - forward.drafts;
  forward.draws.clear();
  for (uint32_t i = 0; i <= forward.drafts; ++i) {
    const bool own = step + i == 0 || !forward.chain->seed;
    forward.draws.push_back({.seed = own ? forward.seed : forward.chain->seed(step + i),
                             .row = i == 0 ? first_row : 0});
  }
}

bool MayGoAhead(const ScheduledPass& pass) {
  const Forward& forward = pass.forward;
  return forward.chain && !forward.rules && !forward.chain->drafter && !forward.chain->speculate &&
         !forward.chain->single && pass.rows_left() == 0 && SamplesFirstRow(forward) &&
         pass.chained + pass.ahead + 1 < forward.chain->max_tokens;
}

uint64_t SeedAhead(ScheduledPass& pass) {
  Chain& chain = *pass.forward.chain;
  return chain.seed ? chain.seed(pass.chained + pass.ahead + 1) : pass.forward.seed;
}

std::optional<uint32_t> TokenForSlowRules(const ScheduledPass& pass, std::span<const Slot> slots) {
  const Forward& forward = pass.forward;
  // A pass with drafts was made while the rules were quick.
  if (!forward.rules || !forward.rules->is_slow() || forward.drafts > 0) return std::nullopt;
  const auto choices = ChoicesOf(forward, slots);
  if (!choices || choices->empty()) return std::nullopt;  // FollowOn reports the error
  const auto* const slot = std::get_if<TokenSlot>(&choices->front());
  if (slot == nullptr || IsStop(*forward.chain, slot->token)) return std::nullopt;
  return slot->token;
}

Result<bool> FollowOn(ScheduledPass& pass, std::vector<Slot>& slots, bool last) {
  Forward& forward = pass.forward;
  Chain& chain = *forward.chain;
  const uint32_t drafts = std::exchange(forward.drafts, 0);
  const auto first_draft = static_cast<uint32_t>(forward.tokens.size()) - drafts;
  const std::span<const Slot> choices = PIE_TRY(ChoicesOf(forward, slots));
  const uint32_t position = forward.positions[first_draft - 1];
  std::vector<uint32_t> tokens;  // for the next pass to feed
  for (uint32_t chosen = 0;; ++chosen) {
    pass.rejected = drafts - chosen;
    const auto* const slot = std::get_if<TokenSlot>(&choices[chosen]);
    if (slot == nullptr) return Fail(Code::kInternal, "the device chose no token");
    const uint32_t token = slot->token;
    const auto end = PIE_TRY(GiveChosen(pass, token));
    if (chain.drafter) chain.drafter->Add(token);
    if (end) {
      if (chain.drafter) chain.drafter->Judge(chosen, chosen);  // the others were not needed
      if (chain.single) KeepRows(forward, pass.rows() - pass.rejected, slots);
      return false;
    }
    if (pass.rejected > 0 && token == forward.tokens[first_draft + chosen]) continue;
    tokens = {token};
    forward.positions = {position + chosen + 1};
    break;
  }
  if (chain.drafter) chain.drafter->Judge(drafts, drafts - pass.rejected);
  if (chain.single && chain.drafter && chain.propose) {
    auto draft = chain.drafter->Draft(kProposedTokens).value_or(std::vector<uint32_t>());
    chain.propose(std::move(draft), forward.positions.front() + 1);
  }
  if (chain.single) KeepRows(forward, pass.rows() - pass.rejected, slots);
  if (last || chain.single) return false;

  if (forward.rules) {
    const auto forced = PIE_TRY(GiveForced(chain, *forward.rules, pass.chained, tokens.size()));
    pass.chained += static_cast<uint32_t>(forced.size());
    tokens.insert(tokens.end(), forced.begin(), forced.end());
  }
  if (chain.drafter) {
    for (size_t i = 1; i < tokens.size(); ++i) chain.drafter->Add(tokens[i]);
  }
  if (tokens.size() > chain.room) return std::unexpected(chain.no_room);
  if (chain.admit) PIE_RETURN_IF_ERROR(chain.admit(static_cast<uint32_t>(tokens.size())));
  chain.room -= tokens.size();
  while (forward.positions.size() < tokens.size()) {
    forward.positions.push_back(forward.positions.back() + 1);
  }
  forward.tokens = std::move(tokens);
  forward.bid.reset();
  if (chain.seed) forward.seed = chain.seed(pass.chained);
  // Batches in flight may read the samples of a chain that has gone ahead: they stay as they are.
  const auto row = static_cast<uint32_t>(forward.tokens.size() - 1);
  if (row > 0 || !SamplesFirstRow(forward)) forward.samples[0].rows = {row};
  forward.draws.clear();
  pass.rows_done = 0;
  pass.first_read = row;
  pass.slots.clear();
  return true;
}

bool AddDrafts(ScheduledPass& pass) {
  if (pass.ahead > 0) return true;
  const Chain& chain = *pass.forward.chain;
  const uint32_t most = chain.drafter ? MoreTokens(chain, pass.chained, kDraftTokens, 0) : 0;
  std::optional<std::vector<uint32_t>> draft = std::vector<uint32_t>();
  if (most > 0) draft = chain.drafter->Draft(most);
  if (!draft) return false;
  Complete(pass, std::move(*draft));
  return true;
}

void GiveUpDrafts(ScheduledPass& pass) {
  pass.forward.chain->drafter->GiveUp();
  Complete(pass, {});
}

}  // namespace pie
