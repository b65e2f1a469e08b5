#include "sched/chain.h"

#include <algorithm>
#include <variant>

#include "sched/pass.h"

namespace pie {
namespace {

bool ChoosesTokens(SampleSpec::Kind kind) {
  return kind < SampleSpec::kFirstProbe;
}

bool SamplesFirstRow(const Forward& forward) {
  const std::vector<uint32_t>& rows = forward.samples[0].rows;
  return rows.size() == 1 && rows[0] == 0;
}

}  // namespace

Status CheckChain(const Forward& forward) {
  if (!forward.chain) return {};
  if (forward.chain->max_tokens == 0) {
    return Fail(Code::kInvalid, "a chain of no tokens: ask for at least one");
  }
  if (!forward.attention.empty()) {
    return Fail(Code::kInvalid,
                "a chain attends causally: an attention mask holds for the rows of one pass");
  }
  if (forward.samples.size() != 1 || !ChoosesTokens(forward.samples[0].kind)) {
    return Fail(Code::kInvalid, "a chain needs one sampler that chooses tokens, and no probes");
  }
  if (forward.samples[0].rows != std::vector{static_cast<uint32_t>(forward.tokens.size() - 1)}) {
    return Fail(Code::kInvalid, "a chain samples the last row of its input, and no other");
  }
  return {};
}

bool MayGoAhead(const ScheduledPass& pass) {
  const Forward& forward = pass.forward;
  return forward.chain && !forward.chain->mask && pass.rows_left() == 0 &&
         SamplesFirstRow(forward) && pass.chained + pass.ahead + 1 < forward.chain->max_tokens;
}

uint64_t SeedAhead(ScheduledPass& pass) {
  Chain& chain = *pass.forward.chain;
  return chain.seed ? chain.seed(pass.chained + pass.ahead + 1) : pass.forward.seed;
}

Result<bool> FollowOn(ScheduledPass& pass, const std::vector<Slot>& slots, bool last) {
  Forward& forward = pass.forward;
  Chain& chain = *forward.chain;
  const auto* chosen = slots.empty() ? nullptr : std::get_if<TokenSlot>(slots.data());
  if (chosen == nullptr) return Fail(Code::kInternal, "the device chose no token");
  const uint32_t token = chosen->token;
  ++pass.chained;

  std::optional<Chain::End> end;
  if (std::ranges::binary_search(chain.stops, token)) {
    end = Chain::End::kStop;
  } else if (pass.chained >= chain.max_tokens) {
    end = Chain::End::kLimit;
  }
  chain.give(token, end);
  if (end || last) return false;

  if (chain.admit) PIE_RETURN_IF_ERROR(chain.admit());
  if (chain.mask) PIE_RETURN_IF_ERROR(chain.mask(token, forward.logit_mask));
  forward.positions = {forward.positions.back() + 1};
  forward.tokens = {token};
  // Batches in flight may read the samples of a chain that has gone ahead: they stay as they are.
  if (!SamplesFirstRow(forward)) forward.samples[0].rows = {0};
  forward.bid.reset();
  if (chain.seed) forward.seed = chain.seed(pass.chained);
  pass.rows_done = 0;
  pass.first_read = 0;
  pass.slots.clear();
  return true;
}

}  // namespace pie
