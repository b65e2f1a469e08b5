// The kinds of a model's tokens, from which the dummy device imitates the model.
#pragma once

#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "speech/model.h"

namespace pie::cli {

// One for each token of the model. Costs a look at every token.
std::vector<DummyToken> DummyTokensOf(const Model& model);

}  // namespace pie::cli
