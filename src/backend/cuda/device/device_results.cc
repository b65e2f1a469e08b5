// How a DeviceBackend waits for a step, and makes a BatchOutput of what it left in pinned memory.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "backend/cuda/device/device_backend.h"
#include "base/cpu_relax.h"

namespace pie::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBusyWait = std::chrono::milliseconds(10);

}  // namespace

// Polls the pinned word that a step's last kernel writes, which is faster than an event.
Status DeviceBackend::WaitForTicket(Ticket ticket) {
  const volatile uint64_t* const done = done_;
  const auto start = Clock::now();
  for (uint32_t spins = 0; *done < ticket; ++spins) {
    CpuRelax();
    if (spins % 256 != 255) continue;
    const auto waited = Clock::now() - start;
    if (IsDone(stream_) && *done < ticket) {
      if (Status status = Check("a kernel failed"); !status) return status;
      return Lose("a batch ended without a result");
    }
    if (waited > std::chrono::milliseconds(options_.step_limit_ms)) {
      hangs_ = true;
      return Lose(fmt::format("a batch takes longer than {} s", options_.step_limit_ms / 1e3));
    }
    if (waited > kBusyWait) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  return {};
}

bool DeviceBackend::CarriedTokenCame(const Batch::CarriedToken& carried) const {
  const auto source = std::ranges::find(choices_, carried.batch, &Choices::ticket);
  return source != choices_.end() && carried.member < source->chosen.size() &&
         source->chosen[carried.member];
}

Result<BatchOutput> DeviceBackend::Wait(Ticket ticket) {
  Enter();
  PIE_CHECK(!flights_.empty() && flights_.front().ticket == ticket);
  Choices& choices = choices_.emplace_back(Choices{.ticket = ticket, .chosen = {}});
  if (choices_.size() > StepBuilder::kRing) choices_.pop_front();
  Status status = Alive();
  if (status) status = WaitForTicket(ticket);
  const Flight flight = std::move(flights_.front());
  flights_.pop_front();
  PIE_RETURN_IF_ERROR(status);
  const Batch& batch = *flight.batch;
  BatchOutput output;
  output.slots.resize(batch.members.size());
  choices.chosen.assign(batch.members.size(), false);
  std::vector<bool> failed(batch.members.size());
  const auto fail = [&](uint32_t member, Error error, bool wrote_kv) {
    if (failed[member]) return;
    output.failures.push_back({.member = member, .error = std::move(error), .wrote_kv = wrote_kv});
    failed[member] = true;
  };
  for (const Batch::CarriedToken& carried : batch.carried) {
    if (CarriedTokenCame(carried)) continue;
    for (uint32_t i = 0; i < batch.members.size(); ++i) {
      const Batch::Member& member = batch.members[i];
      if (carried.row < member.first_row || carried.row - member.first_row >= member.rows) continue;
      fail(i, {Code::kInternal, "an earlier batch failed, and did not choose the token to feed"},
           false);
    }
  }
  for (const auto& [member, error] : flight.plan.failures) fail(member, error, true);
  for (uint32_t i = 0; i < batch.members.size(); ++i) {
    if (Status read = ReadMember(flight, i, output.slots[i]); !read) fail(i, read.error(), true);
    choices.chosen[i] = flight.plan.chooses[i] && !failed[i];
  }
  return output;
}

Status DeviceBackend::ReadMember(const Flight& flight, uint32_t index, std::vector<Slot>& slots) {
  const Batch::Member& member = flight.batch->members[index];
  const SamplingOutput& output = outputs_[flight.ticket % StepBuilder::kRing];
  for (const SlotPlan& plan : flight.plan.slots[index]) {
    const SampleSpec& spec = (*member.samples)[plan.spec];
    switch (plan.kind) {
      case SlotPlan::Kind::kTokens:
        for (uint32_t i = 0; i < plan.count; ++i) {
          const uint32_t token = output.tokens[plan.first + i];
          if (token >= config_.vocab_size) {
            return NothingAllowed();
          }
          slots.emplace_back(TokenSlot{token});
        }
        break;
      case SlotPlan::Kind::kLogprobs:
        slots.emplace_back(
            LogprobsSlot{{output.values + plan.first, output.values + plan.first + plan.count}});
        break;
      case SlotPlan::Kind::kEntropy:
        slots.emplace_back(EntropySlot{output.values[plan.first]});
        break;
      case SlotPlan::Kind::kEmbedding:
        slots.emplace_back(EmbeddingSlot{EmbeddingOf(
            std::span(flight.states)
                .subspan(size_t{plan.first} * config_.hidden_size, config_.hidden_size))});
        break;
      case SlotPlan::Kind::kOnHost: {
        const std::span logits(flight.logits.data() + size_t{plan.first} * config_.vocab_size,
                               config_.vocab_size);
        AllowedTokens mask(member.logit_mask);
        if (member.masks != nullptr) {
          mask = AllowedTokens(PIE_TRY(member.masks->Bits(MaskIndexOf(member, plan.row))));
        }
        const DrawKey key = DrawKeyOf(member, plan.row);
        PIE_RETURN_IF_ERROR(
            sampling_.Read(spec, logits, mask, {key.seed, plan.spec, key.row}, slots));
        break;
      }
    }
  }
  return {};
}

// The last norm, as the output layer would read it.
std::vector<float> DeviceBackend::EmbeddingOf(std::span<const float> state) const {
  double squares = 0;
  for (const float number : state) squares += double{number} * number;
  const double mean = squares / static_cast<double>(state.size());
  const auto scale = static_cast<float>(1 / std::sqrt(mean + config_.norm_eps));
  std::vector<float> embedding(state.size());
  for (size_t i = 0; i < state.size(); ++i) embedding[i] = state[i] * scale * output_norm_[i];
  return embedding;
}

}  // namespace pie::cuda
