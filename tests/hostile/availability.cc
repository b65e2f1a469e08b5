// Users who take all that they can get. A neighbour of another user is not affected, and everything
// that the attackers held is free again when they have ended.
#include "availability.h"

namespace pie::host {
namespace {

TEST_F(Availability, ChildrenEndWithTheirParent) {
  StartEngine();
  ExpectText(Attack("leave_children", 100)->Wait(), Kind::kReturned, "left");
  EXPECT_TRUE(engine_->WaitIdle(5'000)) << "children run without a parent, or wait for a place";
}

TEST_F(Availability, ChildrenEndWithAParentThatIsCancelled) {
  EngineOptions options;
  options.limits.max_processes = 200;
  StartEngine(std::move(options));
  auto parent = Attack("hold_children");
  while (engine_->users().Of("mallory")->processes.used() < 150) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  parent->Cancel();
  EXPECT_EQ(parent->Wait().kind, Kind::kCancelled);
  EXPECT_TRUE(engine_->WaitIdle(5'000));
}

TEST_F(Availability, ChildrenLeavePlacesForOthers) {
  StartEngine();
  Beside([&] { Attack("hold_children"); });
}

TEST_F(Availability, AForkBombLeavesPlacesForOthers) {
  EngineOptions options;
  options.limits.max_processes = 2'000;
  StartEngine(std::move(options));
  Beside([&] { Attack("fork_bomb"); });
}

TEST_F(Availability, QueuedLaunchesLeaveRoomForOthers) {
  EngineOptions options;
  options.limits.max_processes = 300;
  StartEngine(std::move(options));
  Beside([&] {
    while (auto process =
               engine_->Launch("hostile", R"({"mode": "sleep"})", {.username = "mallory"})) {
      attackers_.push_back(*process);
    }
    EXPECT_GT(attackers_.size(), 200u);
  });
}

TEST_F(Availability, QueuedInputsLeaveRoomForOthers) {
  EngineOptions options;
  options.limits.max_inputs_bytes = 64 << 20;
  StartEngine(std::move(options));
  const std::string big =
      fmt::format(R"({{"mode": "sleep", "x": "{}"}})", std::string(1 << 20, 'x'));
  Beside([&] {
    while (auto process = engine_->Launch("hostile", big, {.username = "mallory"})) {
      attackers_.push_back(*process);
    }
    EXPECT_GT(attackers_.size(), 40u);
  });
}

TEST_F(Availability, ContextsLeaveRoomForOthers) {
  EngineOptions options;
  options.limits.max_contexts = 10'000;
  StartEngine(std::move(options));
  Beside([&] {
    for (int i = 0; i < 4; ++i) Attack("hold_contexts");
  });
  EXPECT_LE(engine_->users().Of("mallory")->contexts.used(), 8'000u);
}

TEST_F(Availability, TopicsLeaveRoomForOthers) {
  EngineOptions options;
  options.limits.max_topics = 5'000;
  StartEngine(std::move(options));
  Beside([&] { Attack("topics"); }, R"({"mode": "talk", "n": 20})");
  ExpectText(attackers_.back()->Wait(), Kind::kTrapped, "topics");
}

TEST_F(Availability, MessagesLeaveRoomForOthers) {
  EngineOptions options;
  options.limits.max_messaging_bytes = 64 << 20;
  StartEngine(std::move(options));
  Beside([&] { Attack("hoard_messages"); }, R"({"mode": "talk", "n": 20})");
  ExpectText(attackers_.back()->Wait(), Kind::kTrapped, "wait to be read");
}

TEST_F(Availability, LoopsShareTheProcessorByUser) {
  StartEngine();
  Beside([&] {
    for (int i = 0; i < 40; ++i) Attack("loop");
  });
}

TEST_F(Availability, LinearMemoriesLeaveRoomForOthers) {
  EngineOptions options;
  options.limits.max_linear_bytes = 512 << 20;
  options.runtime.limits.max_memory_bytes = 256 << 20;
  StartEngine(std::move(options));
  Beside([&] {
    for (int i = 0; i < 8; ++i) Attack("grow");
  });
  for (const auto& attacker : attackers_) {
    ExpectText(attacker->Wait(), Kind::kTrapped, "memory limit");
  }
}

TEST_F(Availability, ReturnValuesOfChildrenAreCharged) {
  EngineOptions options;
  options.limits.max_host_bytes = 256 << 20;
  StartEngine(std::move(options));
  Beside([&] { Attack("hold_returns", 8 << 20); });
  EXPECT_LE(engine_->users().totals().memory->used(), 256u << 20);
  EXPECT_FALSE(attackers_.back()->exit()) << "it holds what it got, and waits";
}

TEST_F(Availability, ReturnValuesHaveALimit) {
  StartEngine();
  ExpectText(Attack("return_big", 17 << 20)->Wait(), Kind::kTrapped, "at most 16 MiB");
  ExpectText(Attack("return_big", 1 << 20)->Wait(), Kind::kReturned, "x");
}

TEST_F(Availability, TextOfDecodersIsCharged) {
  EngineOptions options;
  options.limits.max_inferlet_bytes = 64 << 20;
  StartEngine(std::move(options));
  Beside([&] { Attack("hoard_decoded", 1'000); });
  EXPECT_LE(engine_->users().totals().memory->used(), 65u << 20);
  EXPECT_FALSE(attackers_.back()->exit());
}

TEST_F(Availability, DecodingHasALimit) {
  StartEngine();
  Beside([&] { Attack("decode_big", 8 << 20); });
  EXPECT_EQ(attackers_.back()->Wait().kind, Kind::kReturned);
}

TEST_F(Availability, MasksInHistoriesAreCharged) {
  EngineOptions options;
  options.limits.max_inferlet_bytes = 16 << 20;
  StartEngine(std::move(options), {.total_pages = 4'096});
  Beside([&] { Attack("hoard_masks", 1'000); });
  EXPECT_LE(engine_->users().totals().memory->used(), 18u << 20);
  EXPECT_FALSE(attackers_.back()->exit()) << attackers_.back()->exit()->text;
}

TEST_F(Availability, TokensOfSuspendedContextsAreCharged) {
  EngineOptions options;
  options.limits.max_inferlet_bytes = 8 << 20;
  StartEngine(std::move(options), {.total_pages = 512});
  Beside([&] { Attack("hoard_tokens", 64); });
  // A thousand tokens take at least 20 KiB, so the limit is reached after a few hundred contexts.
  EXPECT_GE(engine_->users().totals().memory->used(), 7u << 20);
  EXPECT_LE(engine_->users().totals().memory->used(), 10u << 20);
  EXPECT_LT(engine_->stats().sequences, 1'000u);
}

TEST_F(Availability, LongHostCallsHoldUpNobody) {
  StartEngine();
  Beside([&] {
    Attack("encode_big", 4 << 20);
    Attack("many_cues", 100'000);
  });
}

TEST_F(Availability, LongInstructionsHoldUpNobody) {
  StartEngine();
  // One instruction fills almost all the memory that an inferlet may have.
  Beside([&] {
    Attack("fill_after_pass", 1'000 << 20);
    Attack("fill_after_pass", 500 << 20);
  });
}

TEST_F(Availability, DetachedChildrenOutliveTheirParentAndAreCounted) {
  EngineOptions options;
  options.limits.max_detached = 50;
  StartEngine(std::move(options));
  ExpectText(Attack("detach_children", 60)->Wait(), Kind::kReturned, "detached");
  const auto detached = engine_->DetachedOf("mallory");
  EXPECT_EQ(detached.size(), 40u) << "a share of 50";
  EXPECT_TRUE(engine_->DetachedOf("neighbour").empty());
  for (const auto& child : detached) attackers_.push_back(child);  // ended by TearDown
}

TEST_F(Availability, OneUserAloneMayHaveEverything) {
  EngineOptions options;
  options.several_users = false;
  options.limits.max_contexts = 1'000;
  StartEngine(std::move(options));
  Attack("hold_contexts");
  const auto& contexts = *engine_->users().totals().contexts;
  while (contexts.used() < 1'000) std::this_thread::sleep_for(milliseconds(1));
  TearDown();
  Beside([&] { Attack("hold_contexts"); });  // from now on there is another user
  EXPECT_LE(engine_->users().Of("mallory")->contexts.used(), 800u);
}

TEST_F(Availability, ReadingIsSpreadOverBatches) {
  StartEngine({}, {.vocab_size = 50'000});
  Beside([&] { Attack("read_everything", 2'000); });
  ExpectText(attackers_.back()->Wait(), Kind::kReturned, "read");
}

TEST_F(Availability, ForkStormsHoldUpNobody) {
  EngineOptions options;
  options.limits.max_inferlet_bytes = 1 << 30;
  StartEngine(std::move(options));
  Beside([&] { Attack("fork_storm", 20'000); });
}

TEST_F(Availability, OpenedSnapshotsLeaveDescriptorsForOthers) {
  EngineOptions options;
  options.snapshot_root = std::filesystem::path(Env("PIE_HOSTILE_CACHE")) / "snapshots";
  options.limits.max_opened_contexts = 500;
  StartEngine(std::move(options));
  Beside([&] { Attack("hold_snapshots", 100'000); });
  EXPECT_LE(engine_->users().totals().opened->used(), 400u);
  EXPECT_FALSE(attackers_.back()->exit()) << attackers_.back()->exit()->text;
}

TEST_F(Availability, SavesInALoopHoldUpNobody) {
  EngineOptions options;
  options.snapshot_root = std::filesystem::path(Env("PIE_HOSTILE_CACHE")) / "snapshots";
  StartEngine(std::move(options));
  Beside(
      [&] {
        for (int i = 0; i < 20; ++i) Attack("save_loop", 1'000'000);
      },
      R"({"mode": "save_loop", "n": 1})");
}

}  // namespace
}  // namespace pie::host
