// ScriptedToken: a token that a scripted model may say next, and its probability. The script
// (speech/script.h) chooses them, and the dummy device turns them into logits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace pie {

struct ScriptedToken {
  uint32_t token = 0;
  float probability = 0;
};

// Takes the tokens that a row attends to, in order. Empty: the script says nothing about them.
using NextTokens = std::function<std::vector<ScriptedToken>(std::span<const uint32_t> context)>;

}  // namespace pie
