// What goes wrong on a device: each fault has a clear error, and nothing hangs.
#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/emulator/emulator.h"

namespace pie {
namespace {

ModelConfig TinyModel() {
  ModelConfig config;
  config.layers = 1;
  config.hidden_size = 32;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 16;
  config.ffn_size = 64;
  config.vocab_size = 100;
  config.context_length = 256;
  config.norm_eps = 1e-5F;
  config.rope.dims = 16;
  config.attention_scale = 0.25F;
  return config;
}

class CudaFaultsTest : public testing::Test {
 protected:
  void TearDown() override { cuda::emulator::Repair(); }

  static std::string ErrorOf(const Result<std::unique_ptr<Backend>>& backend) {
    return backend ? "it opened" : backend.error().text;
  }
  static Batch OneToken() {
    static const std::vector<SampleSpec> kGreedy = {{.rows = {0}}};
    Batch batch;
    batch.tokens = {1};
    batch.positions = {0};
    batch.pages = {{0}};
    batch.members = {{.rows = 1, .pages = 1, .samples = &kGreedy}};
    return batch;
  }

  const CudaOptions options_{
      .total_pages = 8, .max_batch_tokens = 16, .max_batch_members = 4, .graphs = false};
};

TEST_F(CudaFaultsTest, DriverThatIsTooOldOrAbsent) {
  cuda::emulator::SetDriver(12'080);
  EXPECT_EQ(FindCudaDevices().problem,
            "the NVIDIA driver is too old: it supports CUDA 12.8, and this build needs 13.0");
  EXPECT_EQ(ErrorOf(MakeRandomCudaBackend(TinyModel(), options_)),
            "there is no CUDA device 0: the NVIDIA driver is too old: it supports CUDA 12.8, and "
            "this build needs 13.0; use the cpu driver");
  cuda::emulator::SetDriver(0);
  EXPECT_EQ(FindCudaDevices().problem, "no NVIDIA driver is installed");
}

TEST_F(CudaFaultsTest, DeviceThatIsNotThere) {
  CudaOptions options = options_;
  options.device = 3;
  EXPECT_EQ(ErrorOf(MakeRandomCudaBackend(TinyModel(), options)),
            "there is no CUDA device 3: 1 found; use the cpu driver");
}

TEST_F(CudaFaultsTest, TooLittleMemorySaysHowMuchIsMissing) {
  ModelConfig large = TinyModel();
  large.vocab_size = 1'000'000;
  cuda::emulator::SetMemory(size_t{100} << 20);
  EXPECT_EQ(ErrorOf(MakeRandomCudaBackend(large, options_)),
            "emulated GPU has too little memory for random weights: the weights take 122 MB and "
            "100 MB are free, so 23 MB are missing; use a smaller model or the cpu driver");
  cuda::emulator::SetMemory(size_t{4} << 20);
  EXPECT_NE(ErrorOf(MakeRandomCudaBackend(TinyModel(), options_)).find("MB more are needed"),
            std::string::npos);
}

// A kernel that fails fails its batch and those behind it. The device says so at once from then on,
// and takes nobody else along.
TEST_F(CudaFaultsTest, KernelThatFailsTakesTheDeviceOutOfService) {
  auto backend = MakeRandomCudaBackend(TinyModel(), options_);
  ASSERT_TRUE(backend) << backend.error().text;
  const Batch batch = OneToken();
  const auto first = (*backend)->Submit(batch);
  ASSERT_TRUE(first);
  ASSERT_TRUE((*backend)->Wait(*first));
  cuda::emulator::FailNextLaunch();
  const auto ticket = (*backend)->Submit(batch);
  const std::string text = ticket ? (*backend)->Wait(*ticket).error().text : ticket.error().text;
  EXPECT_EQ(text.find("the CUDA device failed: "), 0U) << text;
  EXPECT_NE(text.find("unspecified launch failure"), std::string::npos) << text;
  const auto again = (*backend)->Submit(batch);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().text, text);
}

}  // namespace
}  // namespace pie
