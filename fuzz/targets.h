// What is fuzzed: every reader of a file that comes from elsewhere.
#pragma once

#include <span>
#include <string>

#include "mutator.h"

namespace pie::fuzz {

struct Target {
  const char* name;
  // A file for the reader, mostly spoilt; the same one for the same dice.
  std::string (*make)(Dice& dice);
  // Gives the file to the reader, and uses what it read; true when it was taken for good.
  bool (*read)(const std::string& bytes);
};

std::span<const Target> Targets();

}  // namespace pie::fuzz
