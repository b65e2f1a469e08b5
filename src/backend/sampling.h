// Sampling: logits of one row → the slots that a SampleSpec asks for. Shared by all backends that
// sample on the CPU, and the reference for those that do not.
//
// Order: logit mask → temperature → softmax → filter (top-k, top-p, min-p) → draw.
//  - Temperature 0 (or less, or NaN) is greedy: the largest logit, of equals the lowest id. Greedy,
//    the argmax of the logits and the first id of a Distribution are always the same token.
//  - top-k with k = 0 keeps everything; top-p keeps the smallest set of likeliest tokens whose
//    probabilities reach p, at least one; min-p keeps tokens with at least p times the best
//    probability; top-k-top-p cuts to k, renormalises, then applies top-p.
//  - Probes read what the model said: Logits, Logprobs and Entropy see neither mask nor
//  temperature.
//    Distribution shows what a sampler would draw from: it sees both, leaves masked tokens out, and
//    its probabilities are of the whole (allowed) vocabulary also when k cuts the list.
//  - Random choices are pure functions of (seed, spec, row, draw), so they depend neither on the
//    rest of the batch nor on how a prefill was chunked.
// Logits that are NaN count as -inf.
//
// One owner, one thread: it keeps its buffers. Cost: one pass over the logits for greedy, a few for
// the rest (softmax.h); only what can be chosen is sorted. Fails if a mask leaves nothing to
// choose.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/softmax.h"
#include "base/result.h"

namespace pie {

struct SampleKey {    // names one random choice
  uint64_t seed = 0;  // of the Forward
  uint32_t spec = 0;  // index among its SampleSpecs
  uint32_t row = 0;   // index among its tokens
};

// The largest logit, of equals the lowest id; nullopt if there is none that is allowed.
std::optional<uint32_t> Argmax(std::span<const float> logits, const Brle* mask);

// Slots that `spec` gives at each of its rows.
uint32_t SlotsPerRow(const SampleSpec& spec);

class Sampling {
 public:
  // Appends the slots of `spec` at one row. `logits` is [vocab]; a null mask allows everything.
  Status Read(const SampleSpec& spec, std::span<const float> logits, const Brle* mask,
              SampleKey key, std::vector<Slot>& slots);

  // Reads everything that a member asks for. `logits_of(i)` gives the logits of the member's row i,
  // valid until its next call; it is not called twice in a row for the same one.
  template <class LogitsOf>
  Status ReadMember(const Batch::Member& member, LogitsOf&& logits_of, std::vector<Slot>& slots);

 private:
  struct Candidate {
    uint32_t id;
    float logit;
    float weight;  // exp((logit - best) / temperature), so the best has 1
  };

  Status Sample(const SampleSpec& spec, std::span<const float> logits, const Brle* mask,
                SampleKey key, std::vector<Slot>& slots);
  Status Distribution(const SampleSpec& spec, std::span<const float> logits, const Brle* mask,
                      std::vector<Slot>& slots);
  // The logits, -inf where the mask forbids. Valid until the next call.
  std::span<const float> Allowed(std::span<const float> logits, const Brle* mask);

  // Each fills candidates_: those of the k largest logits, likeliest first;
  void CollectTopK(std::span<const float> logits, float best, float temperature, uint32_t k);
  // the fewest that have the share p of all weights (blocks_), likeliest first;
  void CollectTopP(std::span<const float> logits, Softmax row, float temperature, float p);
  // those that have at least p times the best one's weight, by id;
  void CollectMinP(std::span<const float> logits, float best, float temperature, float p);
  // those whose logit is `least` or more, by id. Looks only where blocks_ say that there are some.
  void CollectAtLeast(std::span<const float> logits, float best, float temperature, float least);
  static bool Likelier(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }
  // Cuts candidates_, which are sorted, where their weights reach `enough`.
  void Cut(double enough);
  double TotalWeight() const;

  // A token of candidates_, or of the whole row by blocks_, where `left`, a share of all weights,
  // falls.
  uint32_t PickCandidate(double left) const;
  uint32_t PickAny(std::span<const float> logits, float temperature, double left) const;

  std::vector<float> allowed_;
  std::vector<SoftmaxBlock> blocks_;
  std::vector<float> maxima_;  // of logits, by block
  std::vector<Candidate> candidates_;
};

template <class LogitsOf>
Status Sampling::ReadMember(const Batch::Member& member, LogitsOf&& logits_of,
                            std::vector<Slot>& slots) {
  if (member.samples == nullptr) return {};
  std::span<const float> logits;
  std::optional<uint32_t> at;  // the row that `logits` is of
  for (uint32_t spec = 0; spec < member.samples->size(); ++spec) {
    const SampleSpec& sample = (*member.samples)[spec];
    for (uint32_t row : sample.rows) {
      if (row < member.sample_row_offset || row - member.sample_row_offset >= member.rows) continue;
      if (at != row) logits = logits_of(row - member.sample_row_offset);
      at = row;
      PIE_RETURN_IF_ERROR(Read(sample, logits, member.logit_mask, {member.seed, spec, row}, slots));
    }
  }
  return {};
}

}  // namespace pie
