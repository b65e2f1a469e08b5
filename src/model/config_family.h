// Shared by both readers of configurations: the traits of each model family, and the last checks.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/config.h"

namespace pie {

// Returns a configuration with every value that follows from the family alone.
ModelConfig FamilyConfig(Architecture architecture);

// Gemma and gpt-oss: in every `period` layers, the last one sees all tokens and the others slide.
// 1: no layer slides; 0: all layers do.
void SetSlidingPattern(ModelConfig& config, uint32_t period);
uint32_t FamilySlidingPeriod(Architecture architecture);

// Checks that layers, widths, heads, experts and rotary dimensions are within their limits and fit
// together. Readers call it before they allocate lists whose length the file gives.
Status CheckSizes(const ModelConfig& config);

// Derives the values that follow from the others (attention_scale, embedding_scale, no window where
// it is wider than the context), then checks the remaining fields.
Status FinishConfig(ModelConfig& config);

}  // namespace pie
