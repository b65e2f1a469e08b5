#include "sched/make_drafter.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "sched/lane.h"
#include "sched/model_drafter.h"
#include "sched/suffix_drafter.h"

namespace pie {

// A drafter looks only at the last tokens of a long sequence, because reading all of them would
// take too long. A draft model needs all of them, at their positions in a text.
void MakeDrafter(const Lane& lane, uint32_t vocab_size, const StepTime& time,
                 std::function<void()> ready) {
  constexpr uint32_t kOfSinglePass = 8;  // the most tokens that it proposes
  const Forward& forward = lane.pass->forward;
  Chain& chain = *forward.chain;
  // Including the output of the pass that has just run.
  const uint32_t given = lane.pass->chained + 1;
  const uint32_t left =
      chain.single ? kOfSinglePass : chain.max_tokens - std::min(chain.max_tokens, given);
  const uint32_t end = lane.kv.tokens() - forward.drafts;
  const History history = lane.kv.history();
  const bool by_model =
      chain.draft_model && end <= SuffixDrafter::kMostTokens && history.IsText(end);
  const uint32_t window = by_model ? end : std::min(end, SuffixDrafter::Window(left));
  std::vector<uint32_t> tokens = history.TokensFrom(end - window);
  tokens.resize(tokens.size() - forward.drafts);
  if (by_model) {
    const auto seed = [&chain, own = forward.seed](uint32_t step) {
      return chain.seed ? chain.seed(step) : own;
    };
    chain.drafter = std::make_unique<ModelDrafter>(std::move(tokens), *chain.draft_model,
                                                   forward.samples[0], seed, lane.pass->chained,
                                                   vocab_size, time, std::move(ready));
    return;
  }
  chain.drafter = std::make_unique<SuffixDrafter>(tokens, chain.recent, time);
}

}  // namespace pie
