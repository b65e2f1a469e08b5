// Targets: the readers that are fuzzed. Every reader of a file from outside is one.
#pragma once

#include <span>
#include <string>

#include "mutator.h"

namespace pie::fuzz {

struct Target {
  const char* name;
  // Makes an input for the reader, mostly a damaged one; it depends on the dice only.
  std::string (*make)(Dice& dice);
  // Gives the input to the reader and uses the result. Returns whether the reader accepted it.
  bool (*read)(const std::string& bytes);
};

std::span<const Target> Targets();

}  // namespace pie::fuzz
