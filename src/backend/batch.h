// Batch: the input of one step of a device, as flat arrays. BatchOutput: its results.
//
// The step thread builds it and one backend reads it. The new tokens of a sequence are consecutive
// rows, and its page table already includes the pages that they will be written to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backend/adapter.h"
#include "base/brle.h"
#include "base/ids.h"
#include "base/result.h"
#include "kv/page_copy.h"

namespace pie {

// SampleSpec: what a device reads at some rows. Kinds below kFirstProbe choose a token; temperature
// 0 makes all of them greedy.
struct SampleSpec {
  enum class Kind : uint8_t {
    kMultinomial,
    kTopK,
    kTopP,
    kMinP,
    kTopKTopP,
    kEmbedding,
    kDistribution,
    kLogits,
    kLogprobs,
    kEntropy
  };
  static constexpr Kind kFirstProbe = Kind::kEmbedding;

  Kind kind = Kind::kTopK;
  float temperature = 0;
  uint32_t k = 0;      // top-k; distribution: 0 = the whole vocabulary
  float p = 1;         // top-p, min-p
  uint32_t draws = 1;  // multinomial: independent draws, one slot each
  // Indices of the Forward's tokens. Each gives one slot, or `draws` slots.
  std::vector<uint32_t> rows = {};
  std::vector<uint32_t> ids = {};  // logprobs: the tokens asked for, in order
};

// The results: one of these in each slot.
struct TokenSlot {
  uint32_t token;
};
struct DistributionSlot {
  std::vector<uint32_t> ids;  // likeliest first
  std::vector<float> probs;
};
struct LogitsSlot {
  std::vector<float> logits;  // [vocab]
};
struct LogprobsSlot {
  std::vector<float> logprobs;  // [ids asked for]
};
struct EntropySlot {
  float entropy;  // nats, of the unscaled distribution
};
struct EmbeddingSlot {
  std::vector<float> state;  // [hidden]: what the output layer reads, after the last norm
};
using Slot =
    std::variant<TokenSlot, DistributionSlot, LogitsSlot, LogprobsSlot, EntropySlot, EmbeddingSlot>;

// Names a batch from Submit to Wait (backend.h). Later batches have higher tickets.
using BatchTicket = uint64_t;

// Identifies the random choices of one row.
struct DrawKey {
  uint64_t seed = 0;
  uint32_t row = 0;
};

// Masks over the vocabulary that are made while the device computes the logits. One user at a time.
class TokenMasks {
 public:
  virtual ~TokenMasks() = default;
  // Returns mask `index` as bits, one per token, the lowest first; true = allowed. Waits until it
  // is made. The bits stay valid until the batch has run. An error fails the member.
  virtual Result<std::span<const uint32_t>> Bits(uint32_t index) = 0;
};

struct Batch {
  // One member of the batch: `rows` new tokens of one sequence after `kv_tokens` that its pages
  // already hold.
  struct Member {
    uint32_t first_row = 0;  // into tokens and positions
    uint32_t rows = 0;
    uint32_t first_page = 0;  // into pages
    uint32_t pages = 0;
    uint32_t kv_tokens = 0;
    // The member's first row, counted from the first token of its Forward: the rows that earlier
    // chunks of the Forward held.
    uint32_t pass_row = 0;
    uint64_t seed = 0;  // of every random choice in this member
    // One mask for each token of the Forward; null = causal.
    const std::vector<Brle>* attention = nullptr;
    const Brle* logit_mask = nullptr;  // null = every token is allowed
    // The results to read; null = none. Rows of a SampleSpec count from the Forward's first token.
    // Rows outside of this member's chunk, [pass_row, pass_row + rows), are skipped.
    const std::vector<SampleSpec>* samples = nullptr;
    // The keys of the Forward's rows from `first_draw` on, which choose one token each. Null: every
    // row has the member's seed and its own number.
    const std::vector<DrawKey>* draws = nullptr;
    uint32_t first_draw = 0;
    // In place of `logit_mask`: row first_draw + i has mask i, and every row has mask 0 if there
    // are no `draws`.
    TokenMasks* masks = nullptr;
    // Changes the weights for this member's rows, by this device's form of an adapter. Null: the
    // model alone.
    const DeviceAdapter* adapter = nullptr;
    // The noise that is added to the adapter (model/adapter/zo.h); seed 0: none.
    int64_t zo_seed = 0;
    float zo_sigma = 0;
  };
  // A token that is not known when the batch is built, because an earlier batch chooses it.
  struct CarriedToken {
    uint32_t row = 0;       // the row of this batch that is fed the token; tokens[row] is ignored
    BatchTicket batch = 0;  // the batch that chooses it, in flight when this one is submitted
    uint32_t member = 0;    // the member of that batch; its first slot is the token
  };

  std::vector<uint32_t> tokens;       // [rows]
  std::vector<uint32_t> positions;    // [rows]
  std::vector<PageId> pages;          // page tables, concatenated
  std::vector<PageCopy> copies;       // made in this order, before anything else runs
  std::vector<CarriedToken> carried;  // only for devices that take several batches at a time
  std::vector<Member> members;
};

struct BatchOutput {
  struct Failure {  // one member failed; its slots mean nothing
    uint32_t member = 0;
    Error error;
    bool wrote_kv = false;  // the KV of its rows was written; only its choice of tokens failed
  };
  std::vector<std::vector<Slot>> slots;  // [members], in SampleSpec order
  std::vector<Failure> failures;         // nearly always empty
};

}  // namespace pie
