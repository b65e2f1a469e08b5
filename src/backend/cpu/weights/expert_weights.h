// Loads the experts of one layer from the three ways in which files store them (ExpertStorage),
// including gpt-oss' MXFP4 blocks in safetensors.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/weights/weight_reader.h"
#include "backend/cpu/weights/weights.h"
#include "base/result.h"
#include "model/weight_names.h"

namespace pie::cpu {

// Returns the experts of a layer, [experts].
Result<std::vector<FeedForwardWeights>> LoadExperts(WeightReader& reader, const ModelConfig& config,
                                                    const WeightNames& names, uint32_t layer);

}  // namespace pie::cpu
