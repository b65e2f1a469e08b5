// What both readers of configurations share: the traits of families, and the last checks.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/config.h"

namespace pie {

// A configuration with all that follows from the family alone.
ModelConfig FamilyConfig(Architecture architecture);

// Gemma and gpt-oss: of every `period` layers, the last sees everything. 1: none slides; 0: all do.
void SetSlidingPattern(ModelConfig& config, uint32_t period);
uint32_t FamilySlidingPeriod(Architecture architecture);

// Layers, widths, heads, experts and rotary dimensions are within their limits and fit together.
// Readers ask before they make lists as long as a file says.
Status CheckSizes(const ModelConfig& config);

// Fills in what follows from the numbers read (attention_scale, embedding_scale, windows that are
// wider than the context), then checks all the rest.
Status FinishConfig(ModelConfig& config);

}  // namespace pie
