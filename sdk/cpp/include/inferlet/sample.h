// Samplers and probes. A Sampler chooses tokens from a row of a forward pass; a probe reads what
// the model computed there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/count.h"

namespace inferlet {

// Chooses one token for each row. A temperature of 0 is greedy.
class Sampler {
 public:
  // Chooses the likeliest token.
  static constexpr Sampler Argmax() { return Sampler(Kind::kTopK, 0, 1, 0); }
  // Nucleus sampling: chooses among the likeliest tokens whose probabilities add up to `p`.
  static constexpr Sampler TopP(float temperature, float p) {
    return Sampler(Kind::kTopP, temperature, 0, p);
  }
  // Chooses among the `k` likeliest tokens.
  static constexpr Sampler TopK(float temperature, Count k) {
    return Sampler(Kind::kTopK, temperature, k, 0);
  }
  // Chooses among the tokens that are at least `p` times as likely as the likeliest.
  static constexpr Sampler MinP(float temperature, float p) {
    return Sampler(Kind::kMinP, temperature, 0, p);
  }
  // Chooses from the nucleus of the `k` likeliest tokens.
  static constexpr Sampler TopKTopP(float temperature, Count k, float p) {
    return Sampler(Kind::kTopKTopP, temperature, k, p);
  }
  // Draws `draws` independent tokens at each row from the whole distribution.
  static constexpr Sampler Multinomial(float temperature, Count draws = 1) {
    return Sampler(Kind::kMultinomial, temperature, draws, 0);
  }
  // Chooses no token, but reads the hidden state of the row after the model's last norm
  // (Output::Embedding), as the probe Embedding does.
  static constexpr Sampler Embedding() { return Sampler(Kind::kEmbedding, 0, 0, 0); }

  // Whether the sampler chooses a token. An embedding sampler does not.
  bool ChoosesToken() const { return kind_ != Kind::kEmbedding; }
  // How many slots of the output a row fills.
  uint32_t SlotsPerRow() const {
    return IsMultinomial() ? std::max<uint32_t>(number_.As<uint32_t>(), 1) : 1;
  }
  // Whether the sampler draws several tokens from the whole distribution.
  bool IsMultinomial() const { return kind_ == Kind::kMultinomial; }
  // How many tokens it chooses among (`k`) or draws; 0 for samplers without such a number.
  Count Number() const { return number_; }
  // The sampler as the engine's interface spells it.
  pie::core::inference::Sampler ToRaw() const;

 private:
  enum class Kind { kMultinomial, kTopK, kTopP, kMinP, kTopKTopP, kEmbedding };
  constexpr Sampler(Kind kind, float temperature, Count number, float p)
      : kind_(kind), temperature_(temperature), number_(number), p_(p) {}

  Kind kind_;
  float temperature_;
  Count number_;  // `k`, or the number of draws
  float p_;
};

// Reads every logit of a row, before the softmax. The accessor is Output::Logits.
struct Logits {};
// Reads the likeliest tokens of the temperature-scaled distribution. The accessor is
// Output::Distribution.
struct Distribution {
  // The logits are divided by this before the softmax.
  float temperature = 1;
  // How many tokens; 0 for the whole vocabulary.
  uint32_t k = 0;
};
// Reads the log-probability of one token. The accessor is Output::Logprobs, with one value.
struct Logprob {
  // The token whose probability is asked for.
  uint32_t token;
};
// Reads the log-probability of each candidate, in their order. The accessor is Output::Logprobs.
struct Logprobs {
  // The candidates.
  std::vector<uint32_t> tokens;
};
// Reads the Shannon entropy of the unscaled distribution. The accessor is Output::Entropy.
struct Entropy {};
// Reads the hidden state of a row after the model's last norm. The accessor is Output::Embedding.
struct Embedding {};

// Any of the probes.
using Probe = std::variant<Logits, Distribution, Logprob, Logprobs, Entropy, Embedding>;

namespace detail {
pie::core::inference::Sampler ToRaw(const Probe& probe);
}  // namespace detail

// The place of a sampler's or probe's result in an Output. It is valid for the outputs of the pass,
// or of the generator, that returned it.
struct SlotHandle {
  // The number of the request within its pass.
  uint32_t id;
  // The index of the token, in a step that chose several.
  uint32_t index = 0;
};
// The handle of a sampler.
struct SampleHandle : SlotHandle {};
// The handle of a probe of kind P.
template <class P>
struct ProbeHandle : SlotHandle {
  // Returns the handle of the same probe at another token of a step that accepted several:
  // `out.Entropy(h.At(i))` belongs to `out.tokens[i]`. This handle reads the first token.
  ProbeHandle At(uint32_t token) const { return {{.id = this->id, .index = token}}; }
};

}  // namespace inferlet
