// More attacks on other users: by WASI, by host calls that nothing interrupts, and on the device.
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
  // There are more attackers than threads that run guests, and each call takes a large part of a
  // second.
  Beside([&] {
    for (int i = 0; i < 8; ++i) Attack("accept_many", 1 << 19);
  });
}

TEST_F(Availability, ManyRandomBytesHoldUpNobody) {
  StartEngine();
  Beside([&] {
    for (int i = 0; i < 8; ++i) Attack("random_bytes", 16 << 20);
  });
}

TEST_F(Availability, LongListsOfPollablesHoldUpNobody) {
  StartEngine();
  Beside([&] {
    for (int i = 0; i < 8; ++i) Attack("poll_many", 16'000);
  });
}

TEST_F(Availability, FoldersOfManyLaunchesHoldUpNobody) {
  StartEngine(WithScratch());
  const auto threads = [] {
    return std::ranges::distance(std::filesystem::directory_iterator("/proc/self/task"));
  };
  const auto before = threads();
  auto most = before;
  Beside([&] {
    for (int i = 0; i < 8; ++i) Attack("launch_and_cancel");
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(milliseconds(50));
      most = std::max(most, threads());
    }
  });
  EXPECT_LT(most, before + 100) << "a user's folders take few threads";
}

TEST_F(Availability, ManyPassesHoldUpNobody) {
  // The passes of one user fill dozens of batches.
  StartEngine({}, {.max_batch_members = 64, .latency_us = 200});
  Beside([&] { Attack("queue_passes", 3'000); });
}

TEST_F(Availability, BuffersOfStreamsAreCharged) {
  EngineOptions options = WithScratch();
  options.limits.max_linear_bytes = 512 << 20;
  options.limits.max_open_files = 1 << 20;  // memory is short first
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

TEST_F(Availability, OpenFilesLeaveRoomForOthers) {
  EngineOptions options = WithScratch();
  options.limits.max_open_files = 500;
  StartEngine(std::move(options));
  // The neighbour opens files as well.
  Beside(
      [&] {
        for (int i = 0; i < 4; ++i) Attack("hold_files", 300);
        for (int i = 0; i < 4; ++i) Attack("hold_files", 60'000);
      },
      R"({"mode": "scratch"})");
  size_t stopped = 0;
  for (const auto& attacker : attackers_) {
    if (attacker->exit()) {
      ExpectText(*attacker->exit(), Kind::kTrapped, "file limit");
      ++stopped;
    }
  }
  EXPECT_GE(stopped, 4u);
  EXPECT_LE(engine_->users().Of("mallory")->open_files.used(), 400u);
}

TEST_F(Availability, UnaskedWritesAreRefused) {
  StartEngine(WithScratch());
  // The host would keep what was written until the disk has it.
  ExpectText(Attack("write_unasked", 2 << 20)->Wait(), Kind::kTrapped, "check-write");
  ExpectText(Attack("print_unasked", 2 << 20)->Wait(), Kind::kTrapped, "check-write");
}

TEST_F(Availability, ReadsOfManyStreamsHoldUpNobody) {
  StartEngine(WithScratch());
  // All of them together would have three gibibytes of reads under way.
  Beside([&] {
    for (int i = 0; i < 8; ++i) Attack("crowd_reads", 6'000);
  });
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

TEST_F(Availability, WritesNearAQuotaHoldUpNobody) {
  EngineOptions options = WithScratch();
  options.limits.max_scratch_bytes = (4 << 20) + 5'000 * 4'096;  // an empty file counts as a block
  StartEngine(std::move(options));
  // The neighbour writes files as well, and its account is below that of all scratch folders.
  Beside(
      [&] {
        for (int i = 0; i < 4; ++i) Attack("write_near_quota", 5'000);
      },
      R"({"mode": "scratch"})");
  for (const auto& attacker : attackers_) {
    EXPECT_FALSE(attacker->exit()) << attacker->exit()->text;
  }
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

TEST_F(Availability, EmptyRunsOfMasksHoldUpNobody) {
  StartEngine();
  // Every row would walk over all of them.
  Beside([&] { Attack("empty_runs", 8 << 20); });
  EXPECT_FALSE(attackers_.back()->exit()) << attackers_.back()->exit()->text;
}

TEST_F(Availability, LargeMasksHoldUpNobody) {
  StartEngine();
  Beside([&] { Attack("masked_drafts", 2'500); });
  EXPECT_FALSE(attackers_.back()->exit()) << attackers_.back()->exit()->text;
}

TEST_F(Availability, MasksOfAContextHaveALimit) {
  StartEngine();
  ExpectText(Attack("masked_drafts", 3'500)->Wait(), Kind::kFailed, "attention masks of a context");
}

TEST_F(Availability, MasksOfOpenedSnapshotsAreCharged) {
  EngineOptions options;
  options.snapshot_root = std::filesystem::path(Env("PIE_HOSTILE_CACHE")) / "snapshots";
  options.limits.max_inferlet_bytes = 64 << 20;
  StartEngine(std::move(options));
  Beside([&] { Attack("hoard_opened_masks", 1'500); });
  EXPECT_LE(engine_->users().totals().memory->used(), 66u << 20);
  EXPECT_FALSE(attackers_.back()->exit()) << attackers_.back()->exit()->text;
}

TEST_F(Availability, TextsOfMatchersAreCharged) {
  EngineOptions options;
  options.limits.max_inferlet_bytes = 64 << 20;
  StartEngine(std::move(options));
  const size_t before = ResidentBytes();
  Beside([&] { Attack("hoard_matchers", 400'000); });
  EXPECT_LT(ResidentBytes(), before + (size_t{512} << 20));
  EXPECT_FALSE(attackers_.back()->exit()) << attackers_.back()->exit()->text;
}

TEST_F(Availability, ExpensiveGrammarsHoldUpNobody) {
  StartEngine();
  Beside([&] { Attack("forced_chains", 64); });
  EXPECT_FALSE(attackers_.back()->exit()) << attackers_.back()->exit()->text;
}

TEST_F(Availability, GrammarsAreCharged) {
  EngineOptions options;
  options.limits.max_inferlet_bytes = 64 << 20;
  StartEngine(std::move(options));
  Beside([&] { Attack("hoard_grammars", 2'000'000); });
  EXPECT_LE(engine_->users().totals().memory->used(), 66u << 20);
  EXPECT_FALSE(attackers_.back()->exit()) << attackers_.back()->exit()->text;
}

TEST_F(Availability, NamesThatGuestsGiveAreShort) {
  StartEngine();
  ExpectText(Attack("long_name", 64 << 20)->Wait(), Kind::kFailed, "at most 4096 are allowed");
}

TEST_F(Availability, PagesAreSharedByUser) {
  StartEngine({}, {.total_pages = 512, .latency_us = 200});
  // Each of them runs until it has filled all pages.
  Beside(
      [&] {
        for (int i = 0; i < 8; ++i) Attack("wait_for_pass_forever");
      },
      std::string(kSteady), milliseconds(2'500));
}

TEST_F(Availability, WaitingPassesHaveALimit) {
  EngineOptions options;
  options.limits.max_passes = 4'096;
  StartEngine(std::move(options), {.max_batch_members = 64, .latency_us = 200});
  Beside([&] { Attack("queue_all", 40'000); });
  EXPECT_LE(engine_->users().Of("mallory")->passes.used(), 3'277u);
  EXPECT_FALSE(attackers_.back()->exit()) << attackers_.back()->exit()->text;
}

TEST_F(Availability, StopTokensHaveALimit) {
  StartEngine();
  ExpectText(Attack("many_stops", 1 << 20)->Wait(), Kind::kFailed, "stop tokens");
}

}  // namespace
}  // namespace pie::host
