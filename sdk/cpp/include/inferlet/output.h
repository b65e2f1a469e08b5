// Output: the result of a forward pass.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/sample.h"

namespace inferlet {

// The result of a forward pass, read through the handles that the pass returned. A handle of
// another kind (a probe's for Token, a sampler's for Logits) does not compile. Accessors return
// none for a handle of another pass. Spans live as long as the Output.
class Output {
 public:
  // The slots of one handle. A handle's id is the index of its range.
  struct SlotRange {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  Output(raw::Output raw, std::vector<SlotRange> ranges, std::optional<SampleHandle> auto_sampler)
      : raw_(std::move(raw)), ranges_(std::move(ranges)), auto_sampler_(auto_sampler) {}

  // The token that a sampler chose; the first one if it chose several.
  std::optional<uint32_t> Token(SampleHandle handle) const;
  // All tokens of a sampler: row by row, draw by draw.
  std::vector<uint32_t> TokensAt(SampleHandle handle) const;
  // Token ids and their probabilities, the likeliest first.
  std::optional<std::pair<std::span<const uint32_t>, std::span<const float>>> Distribution(
      ProbeHandle<inferlet::Distribution> handle) const;
  // The logits of the row, one for each token of the vocabulary.
  std::optional<std::span<const float>> Logits(ProbeHandle<inferlet::Logits> handle) const;
  // The log-probabilities of the probe's tokens, in their order.
  template <class P>
    requires std::same_as<P, inferlet::Logprob> || std::same_as<P, inferlet::Logprobs>
  std::optional<std::span<const float>> Logprobs(ProbeHandle<P> handle) const {
    return LogprobsAt(handle);
  }
  // The entropy in nats.
  std::optional<float> Entropy(ProbeHandle<inferlet::Entropy> handle) const;
  // The hidden state of the row; the first one of several rows.
  template <class Handle>
    requires std::same_as<Handle, SampleHandle> ||
             std::same_as<Handle, ProbeHandle<inferlet::Embedding>>
  std::optional<std::span<const float>> Embedding(Handle handle) const {
    return EmbeddingAt(handle);
  }

  // The tokens that the Generator accepted in this step, after stop tokens and the limit. Empty for
  // a Forward.
  std::vector<uint32_t> tokens;

  // The sampler that the Generator attached; none for a Forward and after ClearSampler.
  std::optional<SampleHandle> AutoSampler() const { return auto_sampler_; }
  // All slots, and the engine's draft tokens.
  const raw::Output& Raw() const { return raw_; }

 private:
  std::optional<std::span<const float>> LogprobsAt(SlotHandle handle) const;
  std::optional<std::span<const float>> EmbeddingAt(SlotHandle handle) const;
  const pie::core::inference::SlotOutput* First(SlotHandle handle) const;

  raw::Output raw_;
  std::vector<SlotRange> ranges_;
  std::optional<SampleHandle> auto_sampler_;
};

}  // namespace inferlet
