// More of the same: WASI, host calls that nothing interrupts, and the device.
#include <filesystem>

#include "availability.h"

namespace pie::host {
namespace {

EngineOptions WithScratch() {
  EngineOptions options;
  options.allow_fs = true;
  options.scratch_root = std::filesystem::path(Env("PIE_HOSTILE_CACHE")) / "scratch";
  std::filesystem::create_directories(options.scratch_root);
  return options;
}

TEST_F(Availability, ManyLongHostCallsHoldUpNobody) {
  StartEngine();
  // More of them than there are threads that run guests; each call takes a large part of a second.
  Beside([&] {
    for (int i = 0; i < 8; ++i) Attack("accept_many", 1 << 19);
  });
}

TEST_F(Availability, ManyPassesHoldUpNobody) {
  // The passes of one user fill dozens of batches.
  StartEngine({}, {.max_batch_members = 64, .latency_us = 200});
  Beside([&] { Attack("queue_passes", 3'000); });
}

TEST_F(Availability, BuffersOfStreamsAreCharged) {
  EngineOptions options = WithScratch();
  options.limits.max_linear_bytes = 512 << 20;
  StartEngine(std::move(options));
  const size_t before = ResidentBytes();
  Beside([&] {
    for (int i = 0; i < 4; ++i) Attack("hold_streams", 20'000);
  });
  EXPECT_LT(ResidentBytes(), before + (size_t{1} << 30));
  for (const auto& attacker : attackers_) {
    ExpectText(attacker->Wait(), Kind::kTrapped, "memory limit");
  }
}

TEST_F(Availability, TextsOfHttpRequestsAreCharged) {
  EngineOptions options;
  options.limits.max_linear_bytes = 512 << 20;
  StartEngine(std::move(options));
  const size_t before = ResidentBytes();
  Beside([&] { Attack("hold_methods", 8 << 20); });
  EXPECT_LT(ResidentBytes(), before + (size_t{1} << 30));
  ExpectText(attackers_.back()->Wait(), Kind::kTrapped, "memory limit");
}

TEST_F(Availability, ListsOfPollablesHaveALimit) {
  StartEngine();
  const size_t before = ResidentBytes();
  Beside([&] {
    for (int i = 0; i < 4; ++i) Attack("poll_duplicates", 4 << 20);
  });
  EXPECT_LT(ResidentBytes(), before + (size_t{512} << 20));
  for (const auto& attacker : attackers_) {
    ExpectText(attacker->Wait(), Kind::kTrapped, "handle limit");
  }
}

TEST_F(Availability, FoldersFullOfFilesHoldUpNobody) {
  StartEngine(WithScratch());
  // Each leaves many files, which the engine has to remove.
  Beside(
      [&] {
        for (int i = 0; i < 8; ++i) Attack("litter", 20'000);
      },
      std::string(kSteady), milliseconds(6'000));
}

TEST_F(Availability, FilesOfOneUserHaveALimit) {
  EngineOptions options = WithScratch();
  options.limits.max_scratch_entries = 5'000;
  StartEngine(std::move(options));
  Beside(
      [&] {
        for (int i = 0; i < 4; ++i) Attack("hold_litter", 3'000);
      },
      std::string(kSteady), milliseconds(5'000));
  size_t stopped = 0;
  for (const auto& attacker : attackers_) {
    if (attacker->exit()) {
      ExpectText(*attacker->exit(), Kind::kTrapped, "disk quota");
      ++stopped;
    }
  }
  EXPECT_GE(stopped, 1u);
}

TEST_F(Availability, StopTokensHaveALimit) {
  StartEngine();
  ExpectText(Attack("many_stops", 1 << 20)->Wait(), Kind::kFailed, "stop tokens");
}

}  // namespace
}  // namespace pie::host
