// A generation that the engine runs by itself: the engine feeds each chosen token into the next
// pass, and wakes the program for several tokens at once. The tokens, and the context after each
// batch, are the same as in the loop over steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "generator_state.h"

namespace inferlet::detail {

class Chained {
 public:
  // None if the generation has to run step by step, or has ended. It also runs step by step where
  // the engine refuses the chain: the configuration may have switched chains off, and for any other
  // reason a single pass fails as well and says so. The tokens `ends` also end the chain, and are
  // accepted.
  static Result<std::unique_ptr<Chained>> Start(std::shared_ptr<GeneratorState> generator,
                                                std::span<const uint32_t> ends = {});
  // Ends the chain. The context forgets the tokens that were not taken.
  ~Chained();
  Chained(const Chained&) = delete;
  Chained& operator=(const Chained&) = delete;

  // The tokens accepted since the last call; none at the end.
  Task<Result<std::optional<std::vector<uint32_t>>>> Next();

 private:
  Chained(std::shared_ptr<GeneratorState> generator, raw::Chain chain, uint32_t length)
      : generator_(std::move(generator)),
        flight_(*generator_->context),
        chain_(std::move(chain)),
        length_before_(length) {}
  std::vector<uint32_t> Accept(std::span<const uint32_t> tokens);

  std::shared_ptr<GeneratorState> generator_;
  Flight flight_;
  std::optional<raw::Chain> chain_;
  uint32_t length_before_;
  std::vector<uint32_t> input_;  // of the first pass
  bool started_ = false;         // a token was taken
  bool ended_ = false;
};

}  // namespace inferlet::detail
