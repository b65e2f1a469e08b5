// For the tests of chains: passes as an SDK makes them, loops of them, and chains.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host/api_testing.h"

namespace pie::host {

using Tokens = std::vector<uint32_t>;

struct Counts {
  uint32_t committed, pages, tokens;
  friend bool operator==(const Counts&, const Counts&) = default;
};

class ApiChainTest : public ApiTest {
 protected:
  using ApiTest::ApiTest;
  uint32_t NewContext() {
    const uint32_t context = Ok(ContextCreate(*process_, model_));
    return context;
  }
  Counts CountsOf(uint32_t context) {
    Counts counts{};
    counts.committed = Ok(ContextCommittedPageCount(*process_, context));
    counts.pages = Ok(ContextWorkingPageCount(*process_, context));
    counts.tokens = Ok(ContextWorkingPageTokenCount(*process_, context));
    return counts;
  }
  static uint32_t Length(const Counts& counts) { return counts.committed * 4 + counts.tokens; }

  // A pass as an SDK makes it: the tokens follow those of the context, pages are reserved for them.
  uint32_t Pass(uint32_t context, const Tokens& tokens, std::optional<uint64_t> seed = {}) {
    const Counts counts = CountsOf(context);
    const auto needed = static_cast<uint32_t>((counts.tokens + tokens.size() + 3) / 4);
    if (needed > counts.pages) {
      Ok(ContextReserveWorkingPages(*process_, context, needed - counts.pages));
    }
    const uint32_t pass = Ok(ForwardPassNew(*process_, model_));
    Ok(ForwardPassContext(*process_, pass, context));
    Tokens positions;
    for (size_t i = 0; i < tokens.size(); ++i) positions.push_back(Length(counts) + i);
    Ok(Input(pass, tokens, positions));
    pie_bridge::Sampler sampler{.kind = pie_bridge::SamplerKind::Multinomial,
                                .temperature = seed ? 1.5F : 0,
                                .count = 1,
                                .p = 1};
    const auto row = static_cast<uint32_t>(tokens.size() - 1);
    Ok(ForwardPassSampler(*process_, pass, {&row, 1}, sampler));
    if (seed) Ok(SamplingSeed(*process_, pass, *seed));
    return pass;
  }
  // One step of a loop: the token that is chosen after `tokens`.
  uint32_t Step(uint32_t context, const Tokens& tokens, std::optional<uint64_t> seed = {}) {
    const uint32_t future = Ok(ForwardPassExecute(*process_, Pass(context, tokens, seed)));
    while (true) {
      PassOutput& output = **process_->handles().outputs.Get(future).value();
      if (output.ready.load(std::memory_order_acquire)) {
        EXPECT_TRUE(output.result) << output.result.error().text;
        const uint32_t full = CountsOf(context).tokens / 4;
        Ok(ContextCommitWorkingPages(*process_, context, full));
        return output.result ? std::get<TokenSlot>(output.result->at(0)).token : 0;
      }
      std::this_thread::yield();
    }
  }
  Tokens Loop(uint32_t context, const Tokens& prompt, size_t count,
              std::optional<uint64_t> seed = {}) {
    Tokens tokens;
    for (size_t i = 0; i < count; ++i) {
      const Tokens input = tokens.empty() ? prompt : Tokens{tokens.back()};
      tokens.push_back(Step(context, input, seed ? std::optional(*seed + i) : seed));
    }
    return tokens;
  }

  uint32_t Run(uint32_t context, const Tokens& prompt, uint32_t max_tokens,
               const Tokens& stops = {}, std::optional<uint64_t> seed = {}) {
    return Ok(ChainsRun(*process_, Pass(context, prompt, seed), max_tokens, stops));
  }
  struct Progress {
    Tokens tokens;
    std::optional<ChainsEnding> ended;
    std::string error;
  };
  Progress Take(uint32_t chain) {
    auto taken = ChainTake(*process_, chain);
    if (!taken) return {.error = ErrorOf(taken)};
    return {std::move(taken->tokens), taken->ended, {}};
  }
  // Takes all tokens up to the chain's end.
  Progress TakeAll(uint32_t chain) {
    Progress all;
    while (!all.ended && all.error.empty()) {
      Progress more = Take(chain);
      all.tokens.insert(all.tokens.end(), more.tokens.begin(), more.tokens.end());
      all.ended = more.ended;
      all.error = more.error;
      std::this_thread::yield();
    }
    return all;
  }
  // The result of a pass that has run.
  InferenceOutput Wait(uint32_t future) {
    while (true) {
      auto output = Ok(FutureOutputGet(*process_, future));
      if (output) return *std::move(output);
      std::this_thread::yield();
    }
  }
  static Tokens TokensOf(const InferenceOutput& output) {
    Tokens tokens;
    for (const Slot& slot : output.slots) tokens.push_back(std::get<TokenSlot>(slot).token);
    return tokens;
  }
  void DropChain(uint32_t chain) { Ok(ChainDrop(*process_, chain)); }
};

inline const Tokens kPrompt = {'h', 'e', 'l', 'l', 'o', '!'};

}  // namespace pie::host
