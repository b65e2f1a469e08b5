// What tells two models apart, for things that are kept on disk and fit one model only.
#pragma once

#include <string>

#include "model/model_files.h"

namespace pie {

// 32 hex digits of the names, types, shapes and some bytes of every tensor. Reads a few pages of
// each, not all of them: milliseconds.
std::string FingerprintOf(const ModelFiles& files);

}  // namespace pie
