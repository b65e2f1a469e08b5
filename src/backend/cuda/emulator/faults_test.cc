// Faults of a device: each has a clear error, and nothing hangs.
#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device/tiny_model_testing.h"
#include "backend/cuda/emulator/emulator.h"

namespace pie {
namespace {

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

// A kernel that fails also fails its batch and the batches after it. The device reports that at
// once from then on, and the engine goes on.
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

// The batches that are in flight when the device is lost fail with the reason for it, and not with
// the errors that follow from it.
TEST_F(CudaFaultsTest, BatchesInFlightFailWithTheFirstReason) {
  auto backend = MakeRandomCudaBackend(TinyModel(), options_);
  ASSERT_TRUE(backend) << backend.error().text;
  const Batch batch = OneToken();
  const auto in_flight = (*backend)->Submit(batch);
  ASSERT_TRUE(in_flight);
  cuda::emulator::FailNextLaunch();
  const auto failed = (*backend)->Submit(batch);
  ASSERT_FALSE(failed);
  const auto output = (*backend)->Wait(*in_flight);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().text, failed.error().text);
  const auto later = (*backend)->Submit(batch);
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().text, failed.error().text);
}

// A kernel that never ends is given up after a while. From then on nothing waits for the device,
// not even its destructor.
TEST_F(CudaFaultsTest, KernelThatNeverEndsTakesTheDeviceOutOfService) {
  CudaOptions options = options_;
  options.step_limit_ms = 30;
  auto backend = MakeRandomCudaBackend(TinyModel(), options);
  ASSERT_TRUE(backend) << backend.error().text;
  const Batch batch = OneToken();
  cuda::emulator::HangNextLaunch();
  const auto first = (*backend)->Submit(batch);
  const auto second = (*backend)->Submit(batch);
  ASSERT_TRUE(first && second);
  const std::string text =
      "the CUDA device failed: a batch takes longer than 0.03 s; restart the engine";
  const auto hung = (*backend)->Wait(*first);
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().text, text);
  const auto behind = (*backend)->Wait(*second);
  ASSERT_FALSE(behind);
  EXPECT_EQ(behind.error().text, text);
  EXPECT_EQ((*backend)->Submit(batch).error().text, text);
  std::vector<std::byte> page((*backend)->info().page_bytes);
  EXPECT_EQ((*backend)->ReadPage({0}, page).error().text, text);
  EXPECT_EQ((*backend)->WritePage({0}, page).error().text, text);
  const auto adapter = (*backend)->LoadAdapter(*MakeAdapter((*backend)->info().adapters, 4, 8));
  ASSERT_FALSE(adapter);
  EXPECT_EQ(adapter.error().text, "the CUDA device failed; restart the engine");
}

// Copies of pages behind a kernel that never ends fail after the same while. Those who wait for
// them learn of it, and the memory that they came to can be dropped.
TEST_F(CudaFaultsTest, PagesBehindAKernelThatNeverEnds) {
  CudaOptions options = options_;
  options.step_limit_ms = 30;
  auto backend = MakeRandomCudaBackend(TinyModel(), options);
  ASSERT_TRUE(backend) << backend.error().text;
  const Batch batch = OneToken();
  cuda::emulator::HangNextLaunch();
  const auto ticket = (*backend)->Submit(batch);
  ASSERT_TRUE(ticket);
  const auto contents = (*backend)->ReadPages(batch.pages);
  ASSERT_TRUE(contents);
  const auto page = (*contents)->Page(0);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().text, "the CUDA device does not answer: pages could not be copied");
  EXPECT_FALSE((*backend)->Wait(*ticket));
  EXPECT_EQ((*contents)->Page(0).error().text, "the CUDA device failed while pages were copied");
  EXPECT_FALSE((*backend)->ReadPages(batch.pages));
}

// A batch whose results do not fit fails, and the next one runs.
TEST_F(CudaFaultsTest, BatchThatDoesNotFitFailsAlone) {
  auto backend = MakeRandomCudaBackend(TinyModel(), options_);
  ASSERT_TRUE(backend) << backend.error().text;
  const auto run = [&](const Batch& batch) -> std::string {
    const auto ticket = (*backend)->Submit(batch);
    if (!ticket) return ticket.error().text;
    const auto output = (*backend)->Wait(*ticket);
    return output ? "" : output.error().text;
  };
  const Batch small = OneToken();
  std::vector<SampleSpec> ids = {{.kind = SampleSpec::Kind::kLogprobs, .rows = {0}}};
  ids[0].ids.assign(300'000, 7);
  Batch large = small;
  large.members[0].samples = &ids;
  EXPECT_EQ(run(small), "");
  cuda::emulator::SetPinned(1 << 20);
  EXPECT_EQ(run(large), "the machine has no memory left to pin");
  EXPECT_EQ(run(small), "");
  std::vector<SampleSpec> more = ids;
  more[0].ids.assign(3'000'000, 7);
  large.members[0].samples = &more;
  cuda::emulator::SetPinned(SIZE_MAX);
  cuda::emulator::SetMemory(1 << 20);
  const std::string text = run(large);
  EXPECT_NE(text.find("too small for a step's inputs"), std::string::npos) << text;
  cuda::emulator::SetMemory(size_t{4} << 30);
  EXPECT_EQ(run(small), "");
  EXPECT_EQ(run(large), "");
}

// A page that cannot be copied is an error, and so is everything after it.
TEST_F(CudaFaultsTest, CardThatDisappears) {
  auto backend = MakeRandomCudaBackend(TinyModel(), options_);
  ASSERT_TRUE(backend) << backend.error().text;
  cuda::emulator::FailNextLaunch();
  const Batch batch = OneToken();
  const auto ticket = (*backend)->Submit(batch);
  EXPECT_FALSE(ticket && (*backend)->Wait(*ticket));
  std::vector<std::byte> page((*backend)->info().page_bytes);
  EXPECT_FALSE((*backend)->ReadPage({0}, page));
  EXPECT_FALSE((*backend)->WritePage({0}, page));
  EXPECT_FALSE((*backend)->LoadAdapter(*MakeAdapter((*backend)->info().adapters, 4, 8)));
  // A second model on the card cannot be opened; the error says why.
  EXPECT_NE(ErrorOf(MakeRandomCudaBackend(TinyModel(), options_)).find("launch failure"),
            std::string::npos);
}

}  // namespace
}  // namespace pie
