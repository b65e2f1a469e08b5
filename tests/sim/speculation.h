// Rules and drafts of simulated chains: rules like those of a grammar, and a drafter that is right
// most of the time.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "backend/sampling.h"
#include "base/random.h"
#include "sched/drafter.h"
#include "sched/token_rules.h"
#include "store.h"

namespace pie::sim {

// Allows letters only, and no two in a row that are equal modulo 3. After a letter that 7 divides,
// only one letter is allowed. The text is complete after a given number of letters.
class Rules final : public TokenRules, public TokenMasks {
 public:
  explicit Rules(uint32_t letters) : left_(letters) {}

  Result<bool> Accept(uint32_t token) override {
    if (!Allows(token)) return Fail(Code::kInvalid, "token {} is not allowed", token);
    last_ = token;
    --left_;
    return left_ == 0;
  }
  std::vector<uint32_t> Forced(uint32_t most) override {
    if (most == 0 || left_ <= 1 || !Only()) return {};
    return {*Only()};
  }
  void Prepare(std::vector<uint32_t>& draft) override {
    Rules ahead = *this;
    masks_ = {ahead.Mask()};
    for (size_t i = 0; i < draft.size(); ++i) {
      if (!ahead.Allows(draft[i]) || *ahead.Accept(draft[i])) {
        draft.resize(i);
        return;
      }
      masks_.push_back(ahead.Mask());
    }
  }
  TokenMasks& masks() override { return *this; }
  Result<std::span<const uint32_t>> Bits(uint32_t index) override { return masks_.at(index); }

  std::vector<uint32_t> Mask() const {
    std::vector<uint32_t> bits(10, 0);
    for (uint32_t token = 'a'; token <= 'z'; ++token) {
      if (Allows(token)) bits[token / 32] |= 1U << (token % 32);
    }
    return bits;
  }

 private:
  std::optional<uint32_t> Only() const {
    if (last_ == 0 || last_ % 7 != 0) return std::nullopt;
    return last_ == 'z' ? 'a' : last_ + 1;
  }
  bool Allows(uint32_t token) const {
    if (const auto only = Only()) return token == *only;
    return token >= 'a' && token <= 'z' && (last_ == 0 || token % 3 != last_ % 3);
  }

  uint32_t left_;
  uint32_t last_ = 0;
  std::vector<std::vector<uint32_t>> masks_;
};

// Drafts the tokens that the device will choose, and now and then a wrong one.
class Guesser final : public Drafter {
 public:
  Guesser(DummyOptions device, Slots slots, uint64_t seed)
      : device_(std::move(device)), slots_(std::move(slots)), seed_(seed) {}
  void Add(uint32_t token) override { Append(slots_, token); }
  void Judge(uint32_t /*drafted*/, uint32_t /*chosen*/) override {}
  std::optional<std::vector<uint32_t>> Draft(uint32_t most) override {
    std::vector<uint32_t> draft;
    Slots ahead = slots_;
    const uint64_t wanted = Mix(seed_, ahead.size(), 1) % 5;
    while (draft.size() < std::min<uint64_t>(most, wanted)) {
      const uint32_t right = *Argmax(DummyLogits(device_, ahead), nullptr);
      const bool wrong = Mix(seed_, ahead.size(), 2) % 6 == 0;
      draft.push_back(wrong ? 'q' : right);
      Append(ahead, draft.back());
    }
    return draft;
  }

 private:
  static void Append(Slots& slots, uint32_t token) {
    slots.push_back({token, static_cast<uint32_t>(slots.size())});
  }
  const DummyOptions device_;
  Slots slots_;
  const uint64_t seed_;
};

}  // namespace pie::sim
