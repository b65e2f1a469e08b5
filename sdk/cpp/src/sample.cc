#include "inferlet/sample.h"

#include "inferlet/output.h"

namespace inferlet {

namespace host = pie::core::inference;

host::Sampler Sampler::ToRaw() const {
  const auto k = number_.As<uint32_t>();
  switch (kind_) {
    case Kind::kMultinomial:
      return {host::Sampler::Multinomial{{temperature_, k}}};
    case Kind::kTopK:
      return {host::Sampler::TopK{{temperature_, k}}};
    case Kind::kTopP:
      return {host::Sampler::TopP{{temperature_, p_}}};
    case Kind::kMinP:
      return {host::Sampler::MinP{{temperature_, p_}}};
    case Kind::kTopKTopP:
      return {host::Sampler::TopKTopP{{temperature_, k, p_}}};
    case Kind::kEmbedding:
      return {host::Sampler::Embedding{}};
  }
  std::unreachable();
}

host::Sampler detail::ToRaw(const Probe& probe) {
  if (auto* distribution = std::get_if<Distribution>(&probe)) {
    return {host::Sampler::Dist{{distribution->temperature, distribution->k}}};
  }
  if (auto* logprob = std::get_if<Logprob>(&probe)) return {host::Sampler::Logprob{logprob->token}};
  if (auto* logprobs = std::get_if<Logprobs>(&probe)) {
    const std::span<const uint32_t> tokens = logprobs->tokens;
    return {host::Sampler::Logprobs{wit::vector<uint32_t>::from_view(tokens)}};
  }
  if (std::holds_alternative<Entropy>(probe)) return {host::Sampler::Entropy{}};
  if (std::holds_alternative<Embedding>(probe)) return {host::Sampler::Embedding{}};
  return {host::Sampler::RawLogits{}};
}

namespace {

template <class T>
std::span<const T> View(const wit::vector<T>& list) {
  return std::span(list.data(), list.size());
}

// The bytes stand in a malloc'ed block of their own: aligned for a float, as WebAssembly orders it.
std::span<const float> Floats(const wit::vector<uint8_t>& bytes) {
  return std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
}

}  // namespace

const host::SlotOutput* Output::First(SlotHandle handle) const {
  if (handle.id >= ranges_.size() || handle.index >= ranges_[handle.id].count) return nullptr;
  return &raw_.slots[ranges_[handle.id].first + handle.index];
}

std::optional<uint32_t> Output::Token(SampleHandle handle) const {
  const host::SlotOutput* slot = First(handle);
  const auto* token = slot ? std::get_if<host::SlotOutput::Token>(&slot->variants) : nullptr;
  if (!token) return std::nullopt;
  return token->value;
}

std::vector<uint32_t> Output::TokensAt(SampleHandle handle) const {
  std::vector<uint32_t> found;
  if (handle.id >= ranges_.size()) return found;
  const SlotRange range = ranges_[handle.id];
  for (uint32_t i = range.first; i < range.first + range.count; ++i) {
    const auto* token = std::get_if<host::SlotOutput::Token>(&raw_.slots[i].variants);
    if (token) found.push_back(token->value);
  }
  return found;
}

std::optional<std::pair<std::span<const uint32_t>, std::span<const float>>> Output::Distribution(
    ProbeHandle<inferlet::Distribution> handle) const {
  const host::SlotOutput* slot = First(handle);
  const auto* found = slot ? std::get_if<host::SlotOutput::Distribution>(&slot->variants) : nullptr;
  if (!found) return std::nullopt;
  return std::pair(View(std::get<0>(found->value)), View(std::get<1>(found->value)));
}

std::optional<std::span<const float>> Output::Logits(ProbeHandle<inferlet::Logits> handle) const {
  const host::SlotOutput* slot = First(handle);
  const auto* found = slot ? std::get_if<host::SlotOutput::Logits>(&slot->variants) : nullptr;
  if (!found) return std::nullopt;
  return Floats(found->value);
}

std::optional<std::span<const float>> Output::EmbeddingAt(SlotHandle handle) const {
  const host::SlotOutput* slot = First(handle);
  const auto* found = slot ? std::get_if<host::SlotOutput::Embedding>(&slot->variants) : nullptr;
  if (!found) return std::nullopt;
  return Floats(found->value);
}

std::optional<std::span<const float>> Output::LogprobsAt(SlotHandle handle) const {
  const host::SlotOutput* slot = First(handle);
  const auto* found = slot ? std::get_if<host::SlotOutput::Logprobs>(&slot->variants) : nullptr;
  if (!found) return std::nullopt;
  return View(found->value);
}

std::optional<float> Output::Entropy(ProbeHandle<inferlet::Entropy> handle) const {
  const host::SlotOutput* slot = First(handle);
  const auto* found = slot ? std::get_if<host::SlotOutput::Entropy>(&slot->variants) : nullptr;
  if (!found) return std::nullopt;
  return found->value;
}

}  // namespace inferlet
