#include "sched/pass.h"

#include <algorithm>

#include "backend/sampling.h"
#include "base/brle.h"
#include "base/limits.h"

namespace pie {
namespace {

// Numbers that one slot carries.
uint64_t ValuesPerSlot(const SampleSpec& spec, uint32_t vocab_size) {
  switch (spec.kind) {
    case SampleSpec::Kind::kLogits:
      return vocab_size;
    case SampleSpec::Kind::kDistribution:
      return 2ULL * (spec.k == 0 ? vocab_size : std::min(spec.k, vocab_size));
    case SampleSpec::Kind::kLogprobs:
      return spec.ids.size();
    default:
      return 1;
  }
}

Status CheckSample(const SampleSpec& spec, size_t rows, uint32_t vocab_size) {
  if (spec.kind == SampleSpec::Kind::kEmbedding) {
    return Fail(Code::kUnavailable, "embeddings are not available on this device");
  }
  for (uint32_t row : spec.rows) {
    if (row >= rows) {
      return Fail(Code::kInvalid, "a sampler reads row {}, the input has {} tokens", row, rows);
    }
  }
  for (uint32_t id : spec.ids) {
    if (id >= vocab_size) {
      return Fail(Code::kInvalid, "logprob of token {}: the vocabulary has {} tokens", id,
                  vocab_size);
    }
  }
  return {};
}

Status Check(const Forward& forward, const BackendInfo& info) {
  const size_t rows = forward.tokens.size();
  if (rows == 0) return Fail(Code::kInvalid, "empty input: a pass needs at least one token");
  if (rows > info.max_positions) {
    return Fail(Code::kExhausted, "{} tokens in one pass: this model takes at most {}", rows,
                info.max_positions);
  }
  if (forward.positions.size() != rows) {
    return Fail(Code::kInvalid, "{} positions for {} tokens: give one a token",
                forward.positions.size(), rows);
  }
  if (!forward.attention.empty() && forward.attention.size() != rows) {
    return Fail(Code::kInvalid, "{} attention rows for {} tokens: give one a token, or none",
                forward.attention.size(), rows);
  }
  for (uint32_t token : forward.tokens) {
    if (token >= info.vocab_size) {
      return Fail(Code::kInvalid, "token {} is outside the vocabulary of {} tokens", token,
                  info.vocab_size);
    }
  }
  for (uint32_t position : forward.positions) {
    if (position >= info.max_positions) {
      return Fail(Code::kExhausted, "position {} is past this model's last one, {}", position,
                  info.max_positions - 1);
    }
  }
  PIE_RETURN_IF_ERROR(CheckChain(forward));
  if (!forward.logit_mask.empty() && !BrleFirst(forward.logit_mask, info.vocab_size)) {
    return Fail(Code::kInvalid, "the logit mask allows no token: allow at least one");
  }
  uint64_t values = 0;
  for (const SampleSpec& spec : forward.samples) {
    PIE_RETURN_IF_ERROR(CheckSample(spec, rows, info.vocab_size));
    values += spec.rows.size() * SlotsPerRow(spec) * ValuesPerSlot(spec, info.vocab_size);
  }
  if (const uint64_t slots = SlotCount(forward.samples); slots > limits::kSlotsPerPass) {
    return Fail(Code::kExhausted, "a pass that reads {} slots: at most {} are possible", slots,
                limits::kSlotsPerPass);
  }
  if (values > limits::kValuesPerPass) {
    return Fail(Code::kExhausted, "a pass that reads {} numbers: at most {} are possible", values,
                limits::kValuesPerPass);
  }
  return {};
}

}  // namespace

std::optional<Error> FindFault(const Forward& forward, const BackendInfo& info) {
  Status status = Check(forward, info);
  if (status) return std::nullopt;
  return std::move(status.error());
}

uint32_t FirstRead(const Forward& forward) {
  auto first = static_cast<uint32_t>(forward.tokens.size());
  for (const SampleSpec& spec : forward.samples) {
    for (uint32_t row : spec.rows) first = std::min(first, row);
  }
  return first;
}

uint64_t SlotCount(const std::vector<SampleSpec>& samples) {
  uint64_t count = 0;
  for (const SampleSpec& spec : samples) count += spec.rows.size() * SlotsPerRow(spec);
  return count;
}

void PlaceSlots(ScheduledPass& pass, uint32_t first_row, uint32_t rows, std::vector<Slot> slots) {
  const std::vector<SampleSpec>& samples = pass.forward.samples;
  pass.slots.resize(SlotCount(samples));
  auto next = slots.begin();
  size_t place = 0;
  for (const SampleSpec& spec : samples) {
    const uint32_t per_row = SlotsPerRow(spec);
    for (uint32_t row : spec.rows) {
      if (row >= first_row && row - first_row < rows) {
        for (uint32_t i = 0; i < per_row && next != slots.end(); ++i, ++next) {
          pass.slots[place + i] = std::move(*next);
        }
      }
      place += per_row;
    }
  }
}

}  // namespace pie
