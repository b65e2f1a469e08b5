// The experts of one layer, in the three ways in which files keep them (ExpertStorage), and
// gpt-oss' four-bit blocks as safetensors have them.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/weights/weight_names.h"
#include "backend/cpu/weights/weight_reader.h"
#include "backend/cpu/weights/weights.h"
#include "base/result.h"

namespace pie::cpu {

// [experts]
Result<std::vector<FeedForwardWeights>> LoadExperts(WeightReader& reader, const ModelConfig& config,
                                                    const WeightNames& names, uint32_t layer);

}  // namespace pie::cpu
