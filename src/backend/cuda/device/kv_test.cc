// The device with keys and values in fp8, against the same in bfloat16.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device/logits_testing.h"
#include "base/random.h"

namespace pie::cuda {
namespace {

class CudaKvTest : public testing::Test {
 protected:
  void SetUp() override {
    const CudaStatus status = FindCudaDevices();
    if (status.devices.empty()) GTEST_SKIP() << "there is no CUDA device: " << status.problem;
    for (uint32_t i = 0; i < 75; ++i) tokens_.push_back(Mix(5, i) % 50);
  }

  static std::unique_ptr<Backend> Open(const char* name, CudaKv kv, bool deterministic = false) {
    const auto path = std::filesystem::path(PIE_GOLDEN_DIR) / "models" / name;
    auto backend = MakeCudaBackend(path.string(), {.page_tokens = 16,
                                                   .total_pages = 64,
                                                   .max_batch_tokens = 128,
                                                   .max_batch_members = 4,
                                                   .kv = kv,
                                                   .graphs = false,
                                                   .deterministic = deterministic});
    EXPECT_TRUE(backend) << backend.error().text;
    return backend ? std::move(*backend) : nullptr;
  }

  std::vector<uint32_t> tokens_;
};

TEST_F(CudaKvTest, LogitsAreCloseToThoseOfBFloat16) {
  for (const char* const name : {"llama", "gemma2", "qwen3", "gpt-oss"}) {
    const auto exact = Open(name, CudaKv::kBf16);
    const auto rounded = Open(name, CudaKv::kFp8);
    ASSERT_TRUE(exact && rounded) << name;
    const Rows expected = LogitsOf(*exact, tokens_);
    const Rows got = LogitsOf(*rounded, tokens_);
    const double distance = MedianDistance(got, expected);
    fmt::print("{}: {:.4f}\n", name, distance);
    EXPECT_GT(distance, 1e-3) << name << ": the KV cache is not in fp8";
    EXPECT_LT(distance, 0.1) << name;
    EXPECT_LT(MedianDistance(LogitsOf(*rounded, tokens_, 7), got), 0.03) << name;
    EXPECT_LT(rounded->info().page_bytes, exact->info().page_bytes) << name;
    EXPECT_NE(rounded->info().layout, exact->info().layout) << name;
  }
}

// Pages that a swap, a snapshot or a copy moves are as if they had been computed there.
TEST_F(CudaKvTest, PagesComeBack) {
  const auto device = Open("qwen3", CudaKv::kFp8, true);
  ASSERT_TRUE(device);
  const Rows usual = LogitsOf(*device, tokens_);
  constexpr uint32_t kPages = 5;
  std::vector<std::vector<std::byte>> saved;
  for (uint32_t p = 0; p < kPages; ++p) {
    saved.emplace_back(device->info().page_bytes);
    ASSERT_TRUE(device->ReadPage({p}, saved.back()));
  }
  LogitsOf(*device, std::vector<uint32_t>(75, 3));  // writes over them
  for (uint32_t p = 0; p < kPages; ++p) ASSERT_TRUE(device->WritePage({20 + p}, saved[p]));
  const auto last = static_cast<uint32_t>(tokens_.size()) - 1;
  const std::vector<SampleSpec> samples = {{.kind = SampleSpec::Kind::kLogits, .rows = {0}}};
  Batch batch;
  batch.tokens = {tokens_[last]};
  batch.positions = {last};
  for (uint32_t p = 0; p < kPages; ++p) {
    batch.copies.push_back({{20 + p}, {40 + p}});
    batch.pages.push_back({40 + p});
  }
  batch.members = {{.rows = 1, .pages = kPages, .kv_tokens = last, .samples = &samples}};
  const auto output = device->Wait(*device->Submit(batch));
  ASSERT_TRUE(output && output->failures.empty());
  EXPECT_TRUE(std::get<LogitsSlot>(output->slots[0][0]).logits == usual[last]);
}

TEST_F(CudaKvTest, DeterministicModeComputesTheSameBits) {
  const auto device = Open("gemma3", CudaKv::kFp8, true);
  ASSERT_TRUE(device);
  const Rows whole = LogitsOf(*device, tokens_);
  for (const uint32_t chunk : {1U, 9U}) {
    EXPECT_TRUE(LogitsOf(*device, tokens_, chunk) == whole) << "chunks of " << chunk;
  }
}

// Weights, keys and values in fp8: recorded steps, which may be one kernel, leave the same keys and
// values to later steps as others. Rounding to fp8 makes small differences larger.
TEST_F(CudaKvTest, RecordedStepsAreLikeOthers) {
  for (const char* const name : {"llama", "qwen3", "gemma2"}) {
    const auto last_logits = [&](bool graphs) {
      const auto path = std::filesystem::path(PIE_GOLDEN_DIR) / "models" / name;
      auto device = MakeCudaBackend(path.string(), {.page_tokens = 16,
                                                    .total_pages = 8,
                                                    .max_batch_tokens = 2,
                                                    .max_batch_members = 2,
                                                    .weights = CudaWeights::kFp8,
                                                    .kv = CudaKv::kFp8,
                                                    .graphs = graphs});
      EXPECT_TRUE(device) << device.error().text;
      const std::vector<SampleSpec> greedy = {{.rows = {0}}};
      const std::vector<SampleSpec> logits = {{.kind = SampleSpec::Kind::kLogits, .rows = {0}}};
      Rows rows;
      for (uint32_t step = 0; device && step < 40; ++step) {
        const bool reads = step % 8 == 7;  // such a step is never recorded
        Batch batch;
        batch.tokens = {tokens_[step]};
        batch.positions = {step};
        for (uint32_t p = 0; p <= step / 16; ++p) batch.pages.push_back({p});
        batch.members = {{.rows = 1,
                          .pages = step / 16 + 1,
                          .kv_tokens = step,
                          .samples = reads ? &logits : &greedy}};
        const auto output = (*device)->Wait(*(*device)->Submit(batch));
        EXPECT_TRUE(output && output->failures.empty());
        if (!output) break;
        if (reads) rows.push_back(std::get<LogitsSlot>(output->slots[0][0]).logits);
      }
      return rows;
    };
    const double distance = MedianDistance(last_logits(true), last_logits(false));
    fmt::print("{}: {:.4f}\n", name, distance);
    EXPECT_LT(distance, 0.03) << name;
  }
}

}  // namespace
}  // namespace pie::cuda
