#include "backend/carried_tokens.h"

#include <algorithm>
#include <utility>

namespace pie {
namespace {

std::optional<uint32_t> FirstToken(const std::vector<Slot>& slots) {
  const auto* const chosen = slots.empty() ? nullptr : std::get_if<TokenSlot>(slots.data());
  return chosen == nullptr ? std::nullopt : std::optional(chosen->token);
}

Result<BatchOutput> RunOnce(Backend& device, const Batch& batch) {
  const BatchTicket ticket = PIE_TRY(device.Submit(batch));
  return device.Wait(ticket);
}

}  // namespace

Result<BatchOutput> CarriedTokens::Run(Backend& device, BatchTicket ticket, const Batch& batch) {
  Result<BatchOutput> output =
      batch.carried.empty() ? RunOnce(device, batch) : RunWithTokens(device, batch);
  Chosen& chosen = chosen_.emplace_back(Chosen{.ticket = ticket, .tokens = {}});
  if (output) {
    for (const auto& slots : output->slots) chosen.tokens.push_back(FirstToken(slots));
  }
  if (chosen_.size() > batches_) chosen_.pop_front();
  return output;
}

// Runs a copy of the batch in which every token is known.
Result<BatchOutput> CarriedTokens::RunWithTokens(Backend& device, const Batch& batch) const {
  Batch known = batch;
  known.carried.clear();
  std::vector<uint32_t> missing;  // rows
  for (const Batch::CarriedToken& carried : batch.carried) {
    const std::optional<uint32_t> token = TokenOf(carried);
    known.tokens[carried.row] = token.value_or(0);
    if (!token) missing.push_back(carried.row);
  }
  BatchOutput output = PIE_TRY(RunOnce(device, known));
  for (uint32_t row : missing) {
    for (uint32_t i = 0; i < known.members.size(); ++i) {
      const Batch::Member& member = known.members[i];
      if (row < member.first_row || row - member.first_row >= member.rows) continue;
      output.failures.push_back(
          {i, {Code::kInternal, "an earlier batch failed, and did not choose the token to feed"}});
    }
  }
  return output;
}

std::optional<uint32_t> CarriedTokens::TokenOf(const Batch::CarriedToken& carried) const {
  const auto source = std::ranges::find(chosen_, carried.batch, &Chosen::ticket);
  PIE_CHECK(source != chosen_.end());
  return carried.member < source->tokens.size() ? source->tokens[carried.member] : std::nullopt;
}

}  // namespace pie
