// The device with weights in fp8 and in GGUF's packed types, against the same weights in bfloat16
// on the device, and against the logits of transformers.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device/gguf_testing.h"
#include "backend/cuda/device/logits_testing.h"
#include "base/random.h"
#include "model/fp8_testing.h"

namespace pie::cuda {
namespace {

namespace fs = std::filesystem;

std::vector<uint32_t> RandomTokens(uint32_t count, uint32_t vocab) {
  std::vector<uint32_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i) tokens[i] = Mix(3, i) % vocab;
  return tokens;
}

class CudaWeightsTest : public testing::Test {
 protected:
  void SetUp() override {
    const CudaStatus status = FindCudaDevices();
    if (status.devices.empty()) GTEST_SKIP() << "there is no CUDA device: " << status.problem;
  }

  static std::unique_ptr<Backend> Open(const fs::path& path, CudaWeights weights,
                                       bool deterministic = false) {
    auto backend = MakeCudaBackend(path.string(), {.page_tokens = 16,
                                                   .total_pages = 64,
                                                   .max_batch_tokens = 128,
                                                   .max_batch_members = 4,
                                                   .weights = weights,
                                                   .graphs = false,
                                                   .deterministic = deterministic});
    EXPECT_TRUE(backend) << backend.error().text;
    return backend ? std::move(*backend) : nullptr;
  }
  static fs::path Golden(const char* name) { return fs::path(PIE_GOLDEN_DIR) / "models" / name; }
};

TEST_F(CudaWeightsTest, CheckpointsInFp8) {
  const auto tokens = RandomTokens(20, 50);
  for (const char* const name : {"qwen3", "llama", "phi3", "qwen3moe"}) {
    for (const Fp8Form& form : kFp8Forms) {
      const Fp8Model model(Golden(name), form);
      const auto plain = Open(model.plain(), CudaWeights::kAsStored);
      const auto unpacked = Open(model.stored(), CudaWeights::kBf16);
      const auto packed = Open(model.stored(), CudaWeights::kAsStored);
      ASSERT_TRUE(plain && unpacked && packed) << name << ", " << form.name;
      const Rows expected = LogitsOf(*plain, tokens);
      EXPECT_TRUE(LogitsOf(*unpacked, tokens) == expected) << name << ", " << form.name;
      // Weights are not rounded to bfloat16 here, but activations are.
      const Rows got = LogitsOf(*packed, tokens);
      EXPECT_LT(MedianDistance(got, expected), 0.02) << name << ", " << form.name;
      // No packed matrix can have narrow blocks, except where a block is as wide as the matrix: the
      // experts' widths are 12.
      if (std::strcmp(form.name, "narrow_blocks") == 0) {
        EXPECT_EQ(got == expected, std::strcmp(name, "qwen3moe") != 0) << name;
      } else {
        EXPECT_FALSE(got == expected) << name << ", " << form.name << ": the matrix was unpacked";
      }
    }
  }
}

TEST_F(CudaWeightsTest, RoundedToFp8AtLoad) {
  for (const char* const name : {"qwen3", "gemma3", "mixtral", "gpt-oss"}) {
    const auto exact = Open(Golden(name), CudaWeights::kBf16);
    const auto rounded = Open(Golden(name), CudaWeights::kFp8);
    ASSERT_TRUE(exact && rounded) << name;
    const auto tokens = RandomTokens(20, 50);
    const double distance = MedianDistance(LogitsOf(*rounded, tokens), LogitsOf(*exact, tokens));
    fmt::print("{}: {:.4f}\n", name, distance);
    EXPECT_GT(distance, 1e-3) << name;
    EXPECT_LT(distance, 0.15) << name;
    EXPECT_NE(rounded->info().layout, exact->info().layout) << "pages have the same layout";
  }
}

// Few rows read packed weights; more than 64 rows unpack them.
TEST_F(CudaWeightsTest, GgufTypes) {
  constexpr DType k6 = DType::kQ6_K;
  constexpr DType k4 = DType::kQ4_K;
  const GgufLlama models[] = {
      {.usual = DType::kQ8_0}, {.usual = DType::kQ4_0},
      {.usual = DType::kQ4_1}, {.usual = k4, .value = k6, .down = k6, .ends = k6},  // Q4_K_M
      {.usual = k6},           {.usual = DType::kQ4_0, .value = DType::kF32}};
  const auto tokens = RandomTokens(70, GgufLlama::kVocab);
  const fs::path path = fs::path(testing::TempDir()) / fmt::format("types-{}.gguf", getpid());
  for (const GgufLlama& model : models) {
    std::ofstream(path, std::ios::binary) << model.Bytes();
    const auto packed = Open(path, CudaWeights::kAsStored);
    const auto plain = Open(path, CudaWeights::kBf16);
    ASSERT_TRUE(packed && plain);
    const Rows expected = LogitsOf(*plain, tokens);
    const Rows many = LogitsOf(*packed, tokens);
    fmt::print("{}: {:.4f}, at most {:.4f}\n", NameOf(model.usual), MedianDistance(many, expected),
               Distance(many, expected));
    EXPECT_LT(MedianDistance(many, expected), 0.02) << NameOf(model.usual);
    EXPECT_LT(Distance(many, expected), 0.06) << NameOf(model.usual);
    const std::vector<uint32_t> few(tokens.begin(), tokens.begin() + 6);
    const Rows of_few = LogitsOf(*packed, few);
    EXPECT_LT(MedianDistance(of_few, {expected.begin(), expected.begin() + 6}), 0.02)
        << NameOf(model.usual);
    EXPECT_LT(Distance(LogitsOf(*packed, few, 1), of_few), 0.02) << NameOf(model.usual);
  }
  fs::remove(path);
}

// The same bits, whatever the number of rows.
TEST_F(CudaWeightsTest, DeterministicModeNeverUnpacks) {
  const fs::path path = fs::path(testing::TempDir()) / fmt::format("fixed-{}.gguf", getpid());
  std::ofstream(path, std::ios::binary)
      << GgufLlama{.usual = DType::kQ4_K, .value = DType::kQ6_K}.Bytes();
  const auto device = Open(path, CudaWeights::kAsStored, true);
  fs::remove(path);
  ASSERT_TRUE(device);
  const auto tokens = RandomTokens(70, GgufLlama::kVocab);
  EXPECT_TRUE(LogitsOf(*device, tokens, 9) == LogitsOf(*device, tokens));
}

}  // namespace
}  // namespace pie::cuda
