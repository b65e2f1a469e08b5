// A device that fails under the scheduler. The device is the CUDA device on its emulator, so this
// test is a part of cuda_emulated_test alone.
#ifdef PIE_CUDA_EMULATED
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device/tiny_model_testing.h"
#include "backend/cuda/emulator/emulator.h"
#include "backend/dummy/dummy_backend.h"
#include "sched/scheduler.h"

namespace pie {
namespace {

// The model of a device that failed is out of service: its passes fail at once with the reason, and
// so does everything that needs its pages. Another model goes on, and the engine can end.
TEST(FailedDeviceTest, ModelOfAFailedDeviceIsOutOfServiceAndOthersGoOn) {
  auto backend = MakeRandomCudaBackend(
      TinyModel(),
      {.total_pages = 8, .max_batch_tokens = 16, .max_batch_members = 4, .graphs = false});
  ASSERT_TRUE(backend) << backend.error().text;
  Scheduler failing(*std::move(backend), {.check_integrity = true});
  Scheduler other(MakeDummyBackend({}), {.check_integrity = true});
  const auto run = [](Scheduler& scheduler, SequenceId sequence, uint32_t position) -> std::string {
    auto promise = std::make_shared<std::promise<Result<std::vector<Slot>>>>();
    auto result = promise->get_future();
    Forward forward{.sequence = sequence,
                    .tokens = {1},
                    .positions = {position},
                    .samples = {{.rows = {0}}},
                    .done = [promise](auto slots) { promise->set_value(std::move(slots)); }};
    scheduler.Execute(std::move(forward));
    if (result.wait_for(std::chrono::seconds(60)) != std::future_status::ready) return "it hangs";
    const auto slots = result.get();
    return slots ? "" : slots.error().text;
  };
  const SequenceId first = failing.Create();
  const SequenceId second = failing.Create();
  const SequenceId elsewhere = other.Create();
  EXPECT_EQ(run(failing, first, 0), "");
  EXPECT_EQ(run(failing, second, 0), "");
  EXPECT_EQ(run(other, elsewhere, 0), "");
  cuda::emulator::FailNextLaunch();
  const std::string text = run(failing, first, 1);
  EXPECT_NE(text.find("the CUDA device failed: "), text.npos) << text;
  EXPECT_EQ(run(failing, second, 1), text);            // had pages
  EXPECT_EQ(run(failing, failing.Create(), 0), text);  // came later
  EXPECT_EQ(run(other, elsewhere, 1), "");
  const SequenceId third = failing.Create();
  auto promise = std::make_shared<std::promise<std::string>>();
  auto read = promise->get_future();
  failing.Read(second, 0, 1, [promise](Result<KvContent> content) {
    promise->set_value(content ? "it was read" : content.error().text);
  });
  ASSERT_EQ(read.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(read.get(), text);
  for (const SequenceId id : {first, second, third}) failing.Drop(id);
  EXPECT_TRUE(failing.WaitIdle(60'000));
  EXPECT_EQ(failing.stats().integrity_failures, 0U);
  cuda::emulator::Repair();
}

}  // namespace
}  // namespace pie
#endif
