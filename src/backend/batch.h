// Batch: what a device runs in one step, as flat arrays; and what comes back.
//
// Built by the step thread, read by one backend, never shared. A sequence's new tokens are
// consecutive rows; its page table already includes the pages that they will be written to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace pie {

// What to read at one row. Values of `kind` below kFirstProbe choose a token; temperature 0 is
// greedy for all of them.
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
  // Indices into the Forward's own input tokens, one (or `draws`) slots a row.
  std::vector<uint32_t> rows = {};
  std::vector<uint32_t> ids = {};  // logprobs: the tokens asked for, in order
};

// Results, one a slot.
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
using Slot = std::variant<TokenSlot, DistributionSlot, LogitsSlot, LogprobsSlot, EntropySlot>;

using Brle = std::vector<uint32_t>;  // run lengths: false, true, false, …

struct Batch {
  // One member of the batch: `rows` new tokens of one sequence behind `kv_tokens` that its pages
  // already hold.
  struct Member {
    uint32_t first_row = 0;  // into tokens and positions
    uint32_t rows = 0;
    uint32_t first_page = 0;  // into pages
    uint32_t pages = 0;
    uint32_t kv_tokens = 0;
    uint64_t seed = 0;  // of every random choice in this member
    // Null = causal; else one row an input token of the Forward.
    const std::vector<Brle>* attention = nullptr;
    uint32_t attention_row = 0;        // the Brle of this member's first row (chunked prefill)
    const Brle* logit_mask = nullptr;  // null = everything allowed
    // Null or empty: nothing is read. SampleSpec rows count from the Forward's first token; those
    // outside this member's chunk, [sample_row_offset, sample_row_offset + rows), are passed over.
    const std::vector<SampleSpec>* samples = nullptr;
    uint32_t sample_row_offset = 0;  // rows of the Forward that earlier chunks held
  };
  struct Copy {  // copy-on-write of partial pages: in this order, before anything else runs
    PageId from, to;
  };

  std::vector<uint32_t> tokens;     // [rows]
  std::vector<uint32_t> positions;  // [rows]
  std::vector<PageId> pages;        // page tables, concatenated
  std::vector<Copy> copies;
  std::vector<Member> members;
};

struct BatchOutput {
  struct Failure {  // of one member alone; its slots mean nothing
    uint32_t member = 0;
    Error error;
  };
  std::vector<std::vector<Slot>> slots;  // [members], in SampleSpec order
  std::vector<Failure> failures;         // nearly always empty
};

}  // namespace pie
