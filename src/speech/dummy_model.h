// The model that goes with the dummy backend: 256 byte tokens, a few special ones, ChatML turns.
#pragma once

#include <cstdint>
#include <string>

#include "speech/model.h"

namespace pie {

// A `vocab_size` above 262 adds tokens without text, for measurements.
Model MakeDummyModel(std::string name, uint32_t vocab_size = 0);

}  // namespace pie
