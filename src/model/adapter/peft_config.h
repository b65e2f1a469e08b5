// The fields of adapter_config.json that say how tensors are used. Only for the sources of this
// folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/adapter/module_pattern.h"

namespace pie {

struct PeftConfig {
  double rank = 0;
  double alpha = 0;
  bool rslora = false;
  bool ties = false;                 // adapters of tied modules are tied as well
  std::vector<std::string> targets;  // ends of modules' names; empty if target_modules is a pattern
  std::vector<ModulePattern> target_patterns;  // at most one
  std::vector<std::string> parameters;         // ends of parameters' names
  std::vector<std::pair<ModulePattern, double>> rank_patterns, alpha_patterns;

  bool Targets(std::string_view module) const;
  bool TargetsParameter(std::string_view parameter) const;
  double RankOf(std::string_view module) const;
  double AlphaOf(std::string_view module) const;
  uint32_t MaxRank() const;
};

// Fails on anything that would change the result and that the engine does not compute.
Result<PeftConfig> ParsePeftConfig(std::string_view text);

}  // namespace pie
