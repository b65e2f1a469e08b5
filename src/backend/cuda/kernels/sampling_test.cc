// Sampling on the device against backend/sampling.h, its definition.
#include "backend/cuda/kernels/sampling.h"

#include <algorithm>

#include "backend/cuda/kernels/testing.h"
#include "backend/cuda/step_builder.h"
#include "backend/sampling.h"

namespace pie::cuda {
namespace {

using Kind = SampleSpec::Kind;

class SamplingTest : public OnDevice {
 protected:
  static constexpr uint32_t kVocab = 20'011;

  // Reads `specs` of one row on the device.
  std::vector<uint32_t> Sample(const std::vector<float>& logits,
                               const std::vector<SampleSpec>& specs, const Brle* mask,
                               uint64_t seed) {
    StepBuilder builder({.page_tokens = 16,
                         .vocab = kVocab,
                         .group = 1,
                         .kv_heads = 1,
                         .large_lines = 128,
                         .processors = 132,
                         .max_parts = 64,
                         .max_members = 4});
    Batch batch;
    batch.tokens = batch.positions = {0};
    batch.pages = {PageId{0}};
    batch.members = {{.rows = 1, .pages = 1, .seed = seed, .logit_mask = mask, .samples = &specs}};
    StepPlan plan;
    builder.Build(batch, 1, plan);
    const DeviceArray step(plan.bytes, stream_);
    const DeviceArray row(logits, stream_);
    const DeviceArray chosen(std::vector<uint32_t>(16, 7), stream_);
    const DeviceArray tokens(std::vector<uint32_t>(plan.tokens, 7), stream_);
    cuda::SamplingInputs sampling{.step = reinterpret_cast<const StepHeader*>(step.data()),
                                  .logits = row.data(),
                                  .stride = kVocab,
                                  .vocab = kVocab,
                                  .chosen = chosen.data()};
    for (auto& output : sampling.outputs) output = {tokens.data(), nullptr};
    RunSamples(sampling, 0, kNone, 1, stream_);
    auto got = tokens.Read();
    EXPECT_EQ(chosen.Read()[1 * 4], got[0]);
    return got;
  }

  std::vector<uint32_t> Expected(const std::vector<float>& logits,
                                 const std::vector<SampleSpec>& specs, const Brle* mask,
                                 uint64_t seed) {
    std::vector<uint32_t> tokens;
    for (uint32_t spec = 0; spec < specs.size(); ++spec) {
      std::vector<Slot> slots;
      EXPECT_TRUE(sampling_.Read(specs[spec], logits, mask, {seed, spec, 0}, slots));
      for (const Slot& slot : slots) tokens.push_back(std::get<TokenSlot>(slot).token);
    }
    return tokens;
  }

  Sampling sampling_;
};

std::vector<SampleSpec> Everything(float temperature) {
  return {{.kind = Kind::kTopK, .rows = {0}},  // greedy
          {.kind = Kind::kMultinomial, .temperature = temperature, .draws = 40, .rows = {0}},
          {.kind = Kind::kTopK, .temperature = temperature, .k = 1, .rows = {0}},
          {.kind = Kind::kTopK, .temperature = temperature, .k = 40, .rows = {0}},
          {.kind = Kind::kTopK, .temperature = temperature, .k = 3000, .rows = {0}},
          {.kind = Kind::kTopP, .temperature = temperature, .p = 0.9F, .rows = {0}},
          {.kind = Kind::kTopP, .temperature = temperature, .p = 0.1F, .rows = {0}},
          {.kind = Kind::kTopP, .temperature = temperature, .p = 0, .rows = {0}},
          {.kind = Kind::kMinP, .temperature = temperature, .p = 0.05F, .rows = {0}},
          {.kind = Kind::kTopKTopP, .temperature = temperature, .k = 50, .p = 0.8F, .rows = {0}}};
}

// A draw that falls exactly between two tokens may be rounded to the other side: weights are
// floats there and whole numbers here. With these seeds, at most a few of all draws do.
TEST_F(SamplingTest, ChoosesWhatTheDefinitionChooses) {
  uint32_t draws = 0;
  uint32_t differ = 0;
  for (const float range : {1.0F, 8.0F, 30.0F}) {
    for (const float temperature : {0.3F, 1.0F, 2.0F}) {
      for (uint64_t seed = 0; seed < 10; ++seed) {
        const auto logits = RandomFloats(kVocab, seed, range);
        const auto specs = Everything(temperature);
        const auto got = Sample(logits, specs, nullptr, seed);
        const auto expected = Expected(logits, specs, nullptr, seed);
        ASSERT_EQ(got.size(), expected.size());
        for (size_t i = 0; i < got.size(); ++i) differ += got[i] != expected[i] ? 1 : 0;
        draws += static_cast<uint32_t>(got.size());
      }
    }
  }
  fmt::print("{} of {} draws differ\n", differ, draws);
  EXPECT_LE(differ, draws / 500);
}

TEST_F(SamplingTest, MasksAndTies) {
  std::vector<float> logits(kVocab, 1.5F);  // all tokens are equally likely
  const Brle mask = {100, 50, 1000, 3, 200, 1};
  const auto specs = Everything(1);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_EQ(Sample(logits, specs, &mask, seed), Expected(logits, specs, &mask, seed));
    EXPECT_EQ(Sample(logits, specs, nullptr, seed), Expected(logits, specs, nullptr, seed));
  }
  const Brle nothing = {kVocab};
  for (const uint32_t token : Sample(logits, specs, &nothing, 1)) EXPECT_EQ(token, kNone);
  std::ranges::fill(logits, NAN);
  for (const uint32_t token : Sample(logits, specs, nullptr, 1)) EXPECT_EQ(token, kNone);
  logits[77] = INFINITY;
  for (const uint32_t token : Sample(logits, specs, nullptr, 1)) EXPECT_EQ(token, 77U);
}

}  // namespace
}  // namespace pie::cuda
