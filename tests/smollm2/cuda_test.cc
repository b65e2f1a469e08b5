// The CUDA device on a real model, SmolLM2, against the same weights in float32. It differs from
// float32 in that weights, activations, keys and values are bfloat16. Skipped without a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "backend/cuda/cuda_backend.h"
#include "golden.h"
#include "player.h"

namespace pie {
namespace {

using Logits = Player::Logits;

TEST(CudaSmolLm2, DistributionsAreThoseOfTheReference) {
  const CudaStatus status = FindCudaDevices();
  if (status.devices.empty()) GTEST_SKIP() << status.problem;
  const auto model = FindSmolLm2();
  if (!model) GTEST_SKIP() << "the default model is not here; run: make setup";
  const auto device = MakeCudaBackend(model->string(), {.total_pages = 2048});
  ASSERT_TRUE(device) << device.error().text;
  const Golden golden = Golden::Read(PIE_GOLDEN_DIR);
  Player player(**device);
  double sum = 0;
  double worst = 0;
  for (const Golden::Place& place : golden.places) {
    const Golden::Prompt& prompt = golden.prompts[place.prompt];
    Player::Tokens tokens = prompt.ids;
    tokens.insert(tokens.end(), prompt.greedy.begin(), prompt.greedy.begin() + place.step);
    Player::Sequence sequence;
    const double kl = Divergence(place.logprobs, player.Feed(sequence, tokens, 512));
    worst = std::max(worst, kl);
    sum += kl;
  }
  const double mean = sum / static_cast<double>(golden.places.size());
  fmt::print("KL(reference, ours) over {} places: mean {:.2e}, max {:.2e}\n", golden.places.size(),
             mean, worst);
  EXPECT_LT(mean, 2e-3);
  EXPECT_LT(worst, 1e-2);
}

}  // namespace
}  // namespace pie
