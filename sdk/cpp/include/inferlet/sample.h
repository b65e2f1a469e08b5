// What to read from a forward pass: a Sampler chooses tokens, a probe reads what was computed.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "inferlet/bindings.h"

namespace inferlet {

// Chooses one token a row. A temperature of 0 is greedy.
class Sampler {
 public:
  // The likeliest token.
  static constexpr Sampler Argmax() { return Sampler(Kind::kTopK, 0, 1, 0); }
  // Nucleus sampling: the likeliest tokens whose probabilities add up to `p`.
  static constexpr Sampler TopP(float temperature, float p) {
    return Sampler(Kind::kTopP, temperature, 0, p);
  }
  // One of the `k` likeliest tokens.
  static constexpr Sampler TopK(float temperature, uint32_t k) {
    return Sampler(Kind::kTopK, temperature, k, 0);
  }
  // Tokens at least `p` times as likely as the likeliest.
  static constexpr Sampler MinP(float temperature, float p) {
    return Sampler(Kind::kMinP, temperature, 0, p);
  }
  // The k likeliest, then the nucleus of these.
  static constexpr Sampler TopKTopP(float temperature, uint32_t k, float p) {
    return Sampler(Kind::kTopKTopP, temperature, k, p);
  }
  // From the whole distribution; `draws` independent tokens at each row.
  static constexpr Sampler Multinomial(float temperature, uint32_t draws = 1) {
    return Sampler(Kind::kMultinomial, temperature, draws, 0);
  }
  // No token, but the hidden state of the row after the model's last norm. Output::Embedding. The
  // probe Embedding reads the same.
  static constexpr Sampler Embedding() { return Sampler(Kind::kEmbedding, 0, 0, 0); }

  // Whether it chooses a token; an embedding sampler does not.
  bool ChoosesToken() const { return kind_ != Kind::kEmbedding; }
  // How many tokens a row gives.
  uint32_t SlotsPerRow() const { return kind_ == Kind::kMultinomial && k_ > 1 ? k_ : 1; }
  // The sampler as the engine's interface spells it.
  pie::core::inference::Sampler ToRaw() const;

 private:
  enum class Kind { kMultinomial, kTopK, kTopP, kMinP, kTopKTopP, kEmbedding };
  constexpr Sampler(Kind kind, float temperature, uint32_t k, float p)
      : kind_(kind), temperature_(temperature), k_(k), p_(p) {}

  Kind kind_;
  float temperature_;
  uint32_t k_;  // the draws of a multinomial sampler
  float p_;
};

// Every logit of a row, before the softmax. Read with Output::Logits.
struct Logits {};
// The k likeliest tokens of the temperature-scaled distribution; 0 for all. Output::Distribution.
struct Distribution {
  // Divides the logits before the softmax.
  float temperature = 1;
  // How many tokens; 0 for the whole vocabulary.
  uint32_t k = 0;
};
// log p(token). Output::Logprobs, of length 1.
struct Logprob {
  // The token whose probability is asked for.
  uint32_t token;
};
// log p of each candidate, in this order. Output::Logprobs.
struct Logprobs {
  // The candidates.
  std::vector<uint32_t> tokens;
};
// Shannon entropy of the unscaled distribution. Output::Entropy.
struct Entropy {};
// The hidden state of a row after the model's last norm. Output::Embedding.
struct Embedding {};

// What can be read at a row.
using Probe = std::variant<Logits, Distribution, Logprob, Logprobs, Entropy, Embedding>;

namespace detail {
pie::core::inference::Sampler ToRaw(const Probe& probe);
}  // namespace detail

// Where in an Output a sampler's or probe's answer is. Valid for the outputs of the pass, or of the
// generator, that gave it.
struct SlotHandle {
  // The number of the request within its pass.
  uint32_t id;
  // Which of the tokens that a step chose.
  uint32_t index = 0;
};
// Of a sampler.
struct SampleHandle : SlotHandle {};
// Of a probe of kind P.
template <class P>
struct ProbeHandle : SlotHandle {
  // The same probe at another token of a step that accepted several: `out.Entropy(h.At(i))` belongs
  // to `out.tokens[i]`. The handle itself reads the first one.
  ProbeHandle At(uint32_t token) const { return {{.id = this->id, .index = token}}; }
};

}  // namespace inferlet
