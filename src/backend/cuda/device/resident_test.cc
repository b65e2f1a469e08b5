// Steps of one row by one kernel (kernels/resident_step.h), against the same steps by the kernels
// of all other steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "backend/cuda/cuda_backend.h"
#include "base/random.h"

namespace pie::cuda {
namespace {

constexpr uint32_t kPageTokens = 16;

struct Generated {
  std::vector<uint32_t> tokens;
  std::vector<std::byte> page;  // with the keys and values of the steps
};

class CudaResidentTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const CudaStatus status = FindCudaDevices();
    if (status.devices.empty()) GTEST_SKIP() << "there is no CUDA device: " << status.problem;
  }

  // Only recorded steps take the one kernel. The inputs do not depend on the results, so that a
  // near tie that goes the other way changes one token and nothing after it.
  static Generated Generate(bool resident, uint32_t prompt, uint32_t steps, bool fp8 = false) {
    const auto path = std::filesystem::path(PIE_GOLDEN_DIR) / "models" / GetParam();
    auto device =
        MakeCudaBackend(path.string(), {.page_tokens = kPageTokens,
                                        .total_pages = 40,
                                        .max_batch_tokens = 3,
                                        .max_batch_members = 2,
                                        .weights = fp8 ? CudaWeights::kFp8 : CudaWeights::kAsStored,
                                        .kv = fp8 ? CudaKv::kFp8 : CudaKv::kBf16,
                                        .graphs = resident});
    EXPECT_TRUE(device) << device.error().text;
    if (!device) return {};
    const std::vector<SampleSpec> samples = {{.rows = {0}}};
    Generated result;
    const auto run = [&](const std::vector<uint32_t>& tokens, uint32_t done, bool reads) {
      const auto rows = static_cast<uint32_t>(tokens.size());
      Batch batch{.tokens = tokens};
      for (uint32_t i = 0; i < rows; ++i) batch.positions.push_back(done + i);
      const uint32_t pages = (done + rows + kPageTokens - 1) / kPageTokens;
      for (uint32_t p = 0; p < pages; ++p) batch.pages.push_back({39 - p});
      batch.members = {{.rows = rows, .pages = pages, .kv_tokens = done}};
      if (reads) batch.members[0].samples = &samples;
      const auto output = (*device)->Wait(*(*device)->Submit(batch));
      ASSERT_TRUE(output && output->failures.empty());
      if (reads) result.tokens.push_back(std::get<TokenSlot>(output->slots[0][0]).token);
    };
    uint32_t done = 0;
    for (; done < prompt; done += 3) {
      std::vector<uint32_t> tokens(3);
      for (uint32_t i = 0; i < 3; ++i) tokens[i] = Mix(3, done + i) % 50;
      run(tokens, done, false);
    }
    for (uint32_t i = 0; i < steps; ++i) {
      const uint32_t token = Mix(9, i) % 50;
      run({token}, done++, true);
    }
    result.page.resize((*device)->info().page_bytes);
    EXPECT_TRUE((*device)->ReadPage({39 - (done - 1) / kPageTokens}, result.page));
    return result;
  }
};

// Of numbers in bfloat16.
double Distance(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  double apart = 0;
  double all = 0;
  for (size_t i = 0; i + 1 < a.size(); i += 2) {
    uint32_t x = 0;
    uint32_t y = 0;
    std::memcpy(reinterpret_cast<char*>(&x) + 2, &a[i], 2);
    std::memcpy(reinterpret_cast<char*>(&y) + 2, &b[i], 2);
    float p = 0;
    float q = 0;
    std::memcpy(&p, &x, 4);
    std::memcpy(&q, &y, 4);
    apart += std::pow(double{p} - q, 2);
    all += double{p} * p;
  }
  return std::sqrt(apart / all);
}

int Different(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  EXPECT_EQ(a.size(), b.size());
  int count = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

// Of biases, norms of heads, windows, caps, norms after a layer, and two tables of angles.
TEST_P(CudaResidentTest, ComputesWhatOtherKernelsCompute) {
  const Generated expected = Generate(false, 0, 20);
  const Generated got = Generate(true, 0, 20);
  EXPECT_LE(Different(got.tokens, expected.tokens), 1);
  ASSERT_EQ(got.page.size(), expected.page.size());
  EXPECT_LT(Distance(got.page, expected.page), 0.02);
}

class CudaResidentContextTest : public CudaResidentTest {};

// Longer contexts are several blocks of keys for each piece.
TEST_P(CudaResidentContextTest, ReadsLongContexts) {
  const Generated expected = Generate(false, 450, 10);
  const Generated got = Generate(true, 450, 10);
  EXPECT_LE(Different(got.tokens, expected.tokens), 1);
  EXPECT_LT(Distance(got.page, expected.page), 0.02);
}

// Keys and values in fp8 are rounded coarsely, so more near ties go the other way.
TEST_P(CudaResidentContextTest, ReadsWeightsAndKeysInFp8) {
  const Generated expected = Generate(false, 60, 20, true);
  const Generated got = Generate(true, 60, 20, true);
  EXPECT_LE(Different(got.tokens, expected.tokens), 3);
}

INSTANTIATE_TEST_SUITE_P(Models, CudaResidentTest,
                         testing::Values("llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"),
                         [](const auto& param) { return std::string(param.param); });
INSTANTIATE_TEST_SUITE_P(Models, CudaResidentContextTest, testing::Values("llama", "gemma3"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace pie::cuda
