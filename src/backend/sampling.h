// Sampling: turns the logits of one row into the slots that a SampleSpec asks for. Used by every
// backend that samples on the CPU, and the reference for those that do not.
//
// Order: logit mask → temperature → softmax → filter (top-k, top-p, min-p) → draw.
//  - Temperature 0 (or less, or NaN) is greedy: the largest logit wins, the lowest id among equals.
//    Greedy, the argmax of the logits and the first id of a Distribution are always the same token.
//  - top-k with k = 0 keeps everything; top-p keeps the smallest set of likeliest tokens whose
//    probabilities reach p, at least one; min-p keeps tokens with at least p times the best
//    probability; top-k-top-p truncates to k, renormalises, then applies top-p.
//  - The probes Logits, Logprobs and Entropy read the model's raw output: neither mask nor
//    temperature applies. Distribution shows what a sampler would draw from: both apply, masked
//    tokens are left out, and probabilities are relative to the whole (allowed) vocabulary even if
//    k truncates the list.
//  - Random choices are pure functions of (seed, spec, row, draw), so they depend neither on the
//    rest of the batch nor on how a prefill was chunked.
// A logit that is NaN counts as -inf.
//
// One owner, one thread: the object keeps its buffers. Greedy costs one pass over the logits, the
// other samplers a few (softmax.h); only possible choices are sorted. Fails if a mask allows no
// token.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/softmax.h"
#include "base/result.h"

namespace pie {

struct SampleKey {    // identifies one random choice
  uint64_t seed = 0;  // of the Forward, or of the row
  uint32_t spec = 0;  // index among its SampleSpecs
  uint32_t row = 0;   // index among its tokens, or as a DrawKey says
};

// The tokens that may be chosen: runs, or bits if there are any, or else all tokens.
struct AllowedTokens {
  AllowedTokens(const Brle* mask = nullptr) : runs(mask) {}
  explicit AllowedTokens(std::span<const uint32_t> mask) : bits(mask) {}
  bool all() const { return runs == nullptr && bits.empty(); }
  const Brle* runs = nullptr;
  std::span<const uint32_t> bits;
};

// Returns the token of the largest logit, the lowest id among equals; none if no token is allowed.
std::optional<uint32_t> Argmax(std::span<const float> logits, AllowedTokens mask);

// The error of a logit mask that excludes every token.
std::unexpected<Error> NothingAllowed();

// Whether `spec` reads logits, and not the hidden state that they are made of.
inline bool ReadsLogits(const SampleSpec& spec) {
  return spec.kind != SampleSpec::Kind::kEmbedding;
}

// Number of slots that `spec` yields at each of its rows.
uint32_t SlotsPerRow(const SampleSpec& spec);

class Sampling {
 public:
  // Appends the slots of `spec`, which reads logits, at one row. `logits` is [vocab]; a null mask
  // allows everything.
  Status Read(const SampleSpec& spec, std::span<const float> logits, AllowedTokens mask,
              SampleKey key, std::vector<Slot>& slots);

  // Reads everything that a member asks for. `logits_of(i)` returns the logits of the member's row
  // i, valid until its next call. Rows are read in ascending order, each once, whatever the order
  // in which the member's samples name them: a device computes the logits of a row only once, and
  // not at all for a row that is read for its embedding alone. `embedding_of(i)` returns the
  // embedding of row i as a vector.
  template <class LogitsOf, class EmbeddingOf>
  Status ReadMember(const Batch::Member& member, LogitsOf&& logits_of, EmbeddingOf&& embedding_of,
                    std::vector<Slot>& slots);
  // The mask of a row of a member. Waits until it is made.
  static Result<AllowedTokens> MaskOf(const Batch::Member& member, uint32_t row);

 private:
  struct Candidate {
    uint32_t id;
    float logit;
    float weight;  // exp((logit - best) / temperature), so the best has 1
  };

  // log(sum(exp(logits))) = max + log(sum)
  struct LogSum {
    float max;
    double sum;           // of exp(logit - max)
    double weighted_sum;  // of exp(logit - max) * (logit - max)
  };
  struct PlannedRead {
    uint32_t row;  // of the Forward
    uint32_t spec;
    size_t first_slot;  // where its slots belong
  };

  // Fills reads_ with the member's reads, by row. True if that is also the order of their slots.
  bool PlanReads(const Batch::Member& member);
  // Read, for a row whose log_sum_ may be known from an earlier read.
  Status ReadRow(const SampleSpec& spec, std::span<const float> logits, AllowedTokens mask,
                 SampleKey key, std::vector<Slot>& slots);
  // The key of a row of a member.
  static SampleKey KeyOf(const Batch::Member& member, const PlannedRead& read);
  const LogSum& LogSumOf(std::span<const float> logits);
  Status Sample(const SampleSpec& spec, std::span<const float> logits, AllowedTokens mask,
                SampleKey key, std::vector<Slot>& slots);
  Status Distribution(const SampleSpec& spec, std::span<const float> logits, AllowedTokens mask,
                      std::vector<Slot>& slots);
  // Returns the logits, with -inf where the mask forbids a token. Valid until the next call.
  std::span<const float> Allowed(std::span<const float> logits, AllowedTokens mask);

  // Each of these four fills candidates_. This one takes the k largest logits, likeliest first.
  void CollectTopK(std::span<const float> logits, float best, float temperature, uint32_t k);
  // Takes the fewest tokens that have the share p of all weights (blocks_), likeliest first.
  void CollectTopP(std::span<const float> logits, Softmax row, float temperature, float p);
  // Takes the tokens with at least p times the best weight, by id.
  void CollectMinP(std::span<const float> logits, float best, float temperature, float p);
  // Takes the tokens whose logit is at least `least`, by id. Skips blocks_ whose maximum is
  // smaller.
  void CollectAtLeast(std::span<const float> logits, float best, float temperature, float least);
  static bool Likelier(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }
  // Truncates candidates_, which are sorted, where their weights reach `enough`.
  void Cut(double enough);
  double TotalWeight() const;

  // Each returns the token at which the running sum of weights reaches `left`: among candidates_,
  // or in the whole row, by blocks_.
  uint32_t PickCandidate(double left) const;
  uint32_t PickAny(std::span<const float> logits, float temperature, double left) const;

  std::vector<float> allowed_;
  std::vector<SoftmaxBlock> blocks_;
  std::vector<float> maxima_;  // maximum of the logits of each block
  std::vector<Candidate> candidates_;
  std::vector<PlannedRead> reads_;
  std::vector<Slot> one_read_;
  std::optional<LogSum> log_sum_;  // of the row that is being read, once a probe has needed it
};

template <class LogitsOf, class EmbeddingOf>
Status Sampling::ReadMember(const Batch::Member& member, LogitsOf&& logits_of,
                            EmbeddingOf&& embedding_of, std::vector<Slot>& slots) {
  if (member.samples == nullptr) return {};
  const bool in_order = PlanReads(member);
  std::span<const float> logits;
  AllowedTokens mask;
  std::optional<uint32_t> at;  // the row that `logits` and `mask` belong to
  for (const PlannedRead& read : reads_) {
    const SampleSpec& sample = (*member.samples)[read.spec];
    one_read_.clear();
    std::vector<Slot>& to = in_order ? slots : one_read_;
    if (!ReadsLogits(sample)) {
      to.emplace_back(EmbeddingSlot{embedding_of(read.row - member.pass_row)});
    } else {
      if (at != read.row) {
        logits = logits_of(read.row - member.pass_row);
        mask = PIE_TRY(MaskOf(member, read.row));
        log_sum_.reset();
      }
      at = read.row;
      PIE_RETURN_IF_ERROR(ReadRow(sample, logits, mask, KeyOf(member, read), to));
    }
    if (in_order) continue;
    slots.resize(std::max(slots.size(), read.first_slot + one_read_.size()));
    std::ranges::move(one_read_, slots.begin() + static_cast<std::ptrdiff_t>(read.first_slot));
  }
  return {};
}

}  // namespace pie
