#include "sched/pass.h"

#include <algorithm>
#include <cmath>

#include "backend/sampling.h"
#include "base/brle.h"
#include "base/limits.h"

namespace pie {
namespace {

// The number of floats that one slot carries, besides the slot itself.
uint64_t ValuesPerSlot(const SampleSpec& spec, const BackendInfo& info) {
  switch (spec.kind) {
    case SampleSpec::Kind::kLogits:
      return info.vocab_size;
    case SampleSpec::Kind::kEmbedding:
      return info.hidden_size;
    case SampleSpec::Kind::kDistribution:
      return 2ULL * (spec.k == 0 ? info.vocab_size : std::min(spec.k, info.vocab_size));
    case SampleSpec::Kind::kLogprobs:
      return spec.ids.size();
    default:
      return 0;
  }
}

Status CheckSample(const SampleSpec& spec, size_t rows, const BackendInfo& info) {
  if (spec.kind == SampleSpec::Kind::kEmbedding && info.hidden_size == 0) {
    return Fail(Code::kUnavailable, "embedding: the device {} gives no embeddings", info.name);
  }
  if (!std::isfinite(spec.temperature) || spec.temperature < 0) {
    return Fail(Code::kInvalid, "the temperature must be 0 or more, not {}", spec.temperature);
  }
  if (!(spec.p >= 0 && spec.p <= 1)) {
    return Fail(Code::kInvalid, "p must be between 0 and 1, not {}", spec.p);
  }
  for (uint32_t row : spec.rows) {
    if (row >= rows) {
      return Fail(Code::kInvalid, "a sampler reads row {}, but the input has {} tokens", row, rows);
    }
  }
  return spec.ids.empty() ? Status() : CheckToken(std::ranges::max(spec.ids), info.vocab_size);
}

// A pass may not have a row read by too many samplers and probes.
Status CheckReads(const std::vector<SampleSpec>& samples, size_t rows) {
  if (samples.size() <= limits::kReadsPerRow &&
      std::ranges::all_of(samples, [](const SampleSpec& spec) { return spec.rows.size() <= 1; })) {
    return {};
  }
  std::vector<uint32_t> reads(rows);
  for (const SampleSpec& spec : samples) {
    for (const uint32_t row : spec.rows) {
      if (++reads[row] <= limits::kReadsPerRow) continue;
      return Fail(Code::kExhausted,
                  "row {} is read by more than {} samplers and probes, which is the limit", row,
                  limits::kReadsPerRow);
    }
  }
  return {};
}

Status CheckResult(const std::vector<SampleSpec>& samples, const BackendInfo& info) {
  const ResultSize size = SizeOfResult(samples, info);
  // Samplers that read no row give no slots, but each batch of the pass looks at all of them.
  if (samples.size() > limits::kSlotsPerPass) {
    return Fail(Code::kExhausted, "a pass has at most {} samplers and probes, but this one has {}",
                limits::kSlotsPerPass, samples.size());
  }
  if (size.slots > limits::kSlotsPerPass) {
    return Fail(Code::kExhausted, "a pass gives at most {} slots, but this one asks for {}",
                limits::kSlotsPerPass, size.slots);
  }
  if (size.values > limits::kValuesPerPass) {
    return Fail(Code::kExhausted, "a pass gives at most {} numbers, but this one asks for {}",
                limits::kValuesPerPass, size.values);
  }
  return {};
}

}  // namespace

Status Validate(const Forward& forward, const BackendInfo& info) {
  const size_t rows = forward.tokens.size();
  if (rows == 0) return Fail(Code::kInvalid, "empty input: a pass needs at least one token");
  PIE_RETURN_IF_ERROR(CheckPositionCount(rows, forward.positions.size()));
  if (!forward.attention.empty() && forward.attention.size() != rows) {
    return Fail(Code::kInvalid,
                "{} attention rows for {} tokens: give one row for each token, or no rows",
                forward.attention.size(), rows);
  }
  PIE_RETURN_IF_ERROR(CheckLength(rows, info));
  PIE_RETURN_IF_ERROR(CheckToken(std::ranges::max(forward.tokens), info.vocab_size));
  PIE_RETURN_IF_ERROR(CheckPosition(std::ranges::max(forward.positions), info));
  PIE_RETURN_IF_ERROR(CheckChain(forward));
  if (!forward.logit_mask.empty() && !BrleFirst(forward.logit_mask, info.vocab_size)) {
    return NothingAllowed();
  }
  for (const SampleSpec& spec : forward.samples) {
    PIE_RETURN_IF_ERROR(CheckSample(spec, rows, info));
  }
  PIE_RETURN_IF_ERROR(CheckResult(forward.samples, info));
  return CheckReads(forward.samples, rows);
}

Status CheckLength(uint64_t tokens, const BackendInfo& info) {
  if (tokens > info.max_positions) {
    return Fail(Code::kExhausted, "the sequence would have {} tokens; this model takes at most {}",
                tokens, info.max_positions);
  }
  const uint64_t capacity = uint64_t{info.total_pages} * info.page_tokens;
  if (tokens > capacity) {
    return Fail(Code::kExhausted,
                "the sequence would have {} tokens; the KV memory holds {} ({} pages of {} tokens)",
                tokens, capacity, info.total_pages, info.page_tokens);
  }
  return {};
}

Status CheckPositionCount(size_t tokens, size_t positions) {
  if (positions == tokens) return {};
  return Fail(Code::kInvalid, "{} positions for {} tokens: give one position for each token",
              positions, tokens);
}

Status CheckToken(uint32_t token, uint32_t vocab_size) {
  if (token < vocab_size) return {};
  return Fail(Code::kInvalid, "token {} is not in the vocabulary, whose ids are 0 to {}", token,
              vocab_size - 1);
}

Status CheckPosition(uint32_t position, const BackendInfo& info) {
  if (position < info.max_positions) return {};
  return Fail(Code::kInvalid, "position {} is past this model's last position, {}", position,
              info.max_positions - 1);
}

ResultSize SizeOfResult(const std::vector<SampleSpec>& samples, const BackendInfo& info) {
  ResultSize size;
  for (const SampleSpec& spec : samples) {
    const uint64_t slots = spec.rows.size() * uint64_t{SlotsPerRow(spec)};
    size.slots += slots;
    size.values += slots * ValuesPerSlot(spec, info);
  }
  return size;
}

uint32_t FirstRead(const Forward& forward) {
  auto first = static_cast<uint32_t>(forward.tokens.size());
  for (const SampleSpec& spec : forward.samples) {
    for (uint32_t row : spec.rows) first = std::min(first, row);
  }
  return first;
}

void PlaceSlots(ScheduledPass& pass, uint32_t first_row, uint32_t rows, std::vector<Slot> slots) {
  const std::vector<SampleSpec>& samples = pass.forward.samples;
  pass.slots.resize(SizeOfResult(samples, {}).slots);
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
