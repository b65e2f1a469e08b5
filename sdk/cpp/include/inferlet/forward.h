// Forward: one forward pass, built by hand.
//
//   Forward forward = context.Forward();
//   forward.Input(tokens);
//   SampleHandle handle = forward.Sample({last}, Sampler::Argmax());
//   Output out = PIE_TRY(co_await forward.Execute());
//
// The SDK reserves pages, counts positions and commits full pages. Rows are numbered in the order
// of the inputs. The context's buffer is not part of the pass.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "inferlet/output.h"
#include "inferlet/result.h"
#include "inferlet/sample.h"
#include "inferlet/task.h"

namespace inferlet {

class Adapter;

namespace detail {
struct ContextState;
struct PassState;
}  // namespace detail

// One forward pass. Calls add to it; Execute runs it.
class Forward {
 public:
  explicit Forward(std::shared_ptr<detail::ContextState> context);

  // Adds tokens that extend the context.
  Forward& Input(std::span<const uint32_t> tokens);
  Forward& Input(std::initializer_list<uint32_t> tokens) {
    return Input(std::span(tokens.begin(), tokens.size()));
  }
  // Adds tokens at positions of your own, for scoring. The context drops them after the pass. They
  // come after all Input tokens.
  Forward& InputAt(std::span<const uint32_t> tokens, std::span<const uint32_t> positions);
  Forward& InputAt(std::initializer_list<uint32_t> tokens,
                   std::initializer_list<uint32_t> positions) {
    return InputAt(std::span(tokens.begin(), tokens.size()),
                   std::span(positions.begin(), positions.size()));
  }
  // Sets one BRLE mask for each input token; true = attend.
  Forward& AttentionMask(std::span<const std::vector<uint32_t>> rows);
  Forward& AttentionMask(std::initializer_list<std::vector<uint32_t>> rows) {
    return AttentionMask(std::span(rows.begin(), rows.size()));
  }
  // Sets the BRLE mask over the vocabulary; true = allowed.
  Forward& Mask(std::span<const uint32_t> brle);
  Forward& Mask(std::initializer_list<uint32_t> brle) {
    return Mask(std::span(brle.begin(), brle.size()));
  }
  // Chooses a token at each of these rows. The handle reads them from the Output.
  SampleHandle Sample(std::span<const uint32_t> rows, Sampler sampler);
  SampleHandle Sample(std::initializer_list<uint32_t> rows, Sampler sampler) {
    return Sample(std::span(rows.begin(), rows.size()), sampler);
  }
  // Reads what the model computed at a row. The handle reads it from the Output.
  template <class P>
  ProbeHandle<P> Probe(uint32_t row, P probe) {
    return {AddProbe(row, std::move(probe))};
  }
  // Applies an adapter to the pass.
  Forward& Adapter(const inferlet::Adapter& adapter);
  // Perturbs the pass's adapter (evolution strategies).
  Forward& ZoSeed(int64_t seed);
  // Draws this pass's random choices from `seed` alone.
  Forward& Seed(uint64_t seed);

  // Runs the pass, once. An error leaves the context as it was.
  Task<Result<Output>> Execute();

  // The position of the first Input token: the context's SeqLen() when this pass was made.
  uint32_t StartPosition() const;
  // How many tokens a page of the context holds.
  uint32_t PageSize() const;

 private:
  SlotHandle AddProbe(uint32_t row, inferlet::Probe probe);

  std::shared_ptr<detail::PassState> state_;
};

}  // namespace inferlet
