// The fingerprint of a model's weights. Files that fit only one model store it.
#pragma once

#include <string>

#include "model/model_files.h"

namespace pie {

// Hashes the names, types and shapes of all tensors and some bytes of each into 32 hex digits.
// Reads a few pages per tensor, not whole tensors, and takes milliseconds.
std::string FingerprintOf(const ModelFiles& files);

}  // namespace pie
