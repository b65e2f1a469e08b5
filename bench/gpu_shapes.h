// Shapes of published models, for measurements with random weights.
#pragma once

#include <string>

#include "model/config.h"

namespace pie {

// "8b": Llama 3.1 8B, "1b": Llama 3.2 1B, "0.6b": Qwen3 0.6B, "30b-a3b": Qwen3 30B-A3B, which has
// experts. Any other name ends the program.
ModelConfig ShapeOf(const std::string& name);

}  // namespace pie
