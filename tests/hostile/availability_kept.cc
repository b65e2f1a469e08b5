// Attacks by what is kept or moved where nobody counts it, and by corners of the interfaces.
#include <dirent.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "availability.h"

namespace pie::host {
namespace {

EngineOptions WithFolders() {
  EngineOptions options;
  const auto root = std::filesystem::path(Env("PIE_HOSTILE_CACHE"));
  options.allow_fs = true;
  options.scratch_root = root / "scratch-kept";
  options.data_root = root / "data-kept";
  std::filesystem::remove_all(options.data_root);
  std::filesystem::create_directories(options.scratch_root);
  std::filesystem::create_directories(options.data_root);
  return options;
}

// What the open files of this process take on the disk that have no name.
size_t NamelessBytes() {
  size_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat about{};
    if (stat(entry.path().c_str(), &about) != 0) continue;
    if (S_ISREG(about.st_mode) && about.st_nlink == 0) {
      bytes += static_cast<size_t>(about.st_blocks) * 512;
    }
  }
  return bytes;
}

TEST_F(Availability, FilesDoNotMoveFromOneFolderToAnother) {
  EngineOptions options = WithFolders();
  options.limits.max_data_bytes = 4 << 20;
  const std::string data = options.data_root;
  StartEngine(std::move(options));
  // Only writes are counted before they are done, so a file that moves would not be.
  for (const char* mode : {"move_files", "link_files"}) {
    ExpectText(Attack(mode, 64)->Wait(), Kind::kFailed, "ross-device");
  }
  size_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  EXPECT_EQ(bytes, 0u);
}

TEST_F(Availability, FilesWithoutANameCount) {
  EngineOptions options = WithFolders();
  options.limits.max_scratch_bytes = 16 << 20;
  StartEngine(std::move(options));
  const size_t before = NamelessBytes();
  Beside([&] { Attack("hold_nameless", 200); });
  EXPECT_LE(NamelessBytes(), before + (16u << 20));
  EXPECT_FALSE(attackers_.back()->exit()) << attackers_.back()->exit()->text;
}

TEST_F(Availability, ListingsAreCharged) {
  EngineOptions options = WithFolders();
  options.limits.max_linear_bytes = 512 << 20;
  StartEngine(std::move(options));
  const size_t before = ResidentBytes();
  Beside([&] { Attack("hold_listings", 200); });
  ExpectText(attackers_.back()->Wait(), Kind::kTrapped, "memory limit");
  EXPECT_LT(ResidentBytes(), before + (size_t{700} << 20));
}

TEST_F(Availability, MatchersOfChainsAreCharged) {
  EngineOptions options;
  options.limits.max_inferlet_bytes = 64 << 20;
  StartEngine(std::move(options));
  const size_t before = ResidentBytes();
  Beside([&] { Attack("hoard_followers", 20'000); });
  EXPECT_LT(ResidentBytes(), before + (size_t{256} << 20));
  EXPECT_FALSE(attackers_.back()->exit()) << attackers_.back()->exit()->text;
}

TEST_F(Availability, ReturnsOfLargeMasksHoldUpNobody) {
  StartEngine({}, {.total_pages = 8'192, .latency_us = 200});
  const size_t before = ResidentBytes();
  // All of them together have masks of hundreds of mebibytes.
  Beside(
      [&] {
        for (int i = 0; i < 3; ++i) Attack("masked_returns", 2'500);
      },
      std::string(kSteady), milliseconds(6'000));
  EXPECT_LT(ResidentBytes(), before + (size_t{1} << 30));
}

TEST_F(Availability, WaitingForTheDiskHoldsUpNobody) {
  StartEngine(WithFolders());
  Beside(
      [&] {
        for (int i = 0; i < 20; ++i) Attack("sync_files", 64 << 10);
        for (int i = 0; i < 4; ++i) Attack("truncate_files", 1 << 30);
      },
      R"({"mode": "scratch"})");
  for (const auto& attacker : attackers_) {
    EXPECT_FALSE(attacker->exit()) << attacker->exit()->text;
  }
}

TEST_F(Availability, SavesOfLongContextsHoldUpNobody) {
  EngineOptions options;
  options.snapshot_root = std::filesystem::path(Env("PIE_HOSTILE_CACHE")) / "snapshots-kept";
  StartEngine(std::move(options), {.total_pages = 8'192, .latency_us = 200});
  Beside([&] {
    for (int i = 0; i < 8; ++i) Attack("many_saves", 8'000);
    for (int i = 0; i < 8; ++i) Attack("save_and_delete", 1'000);
  });
}

TEST_F(Availability, TheLargestNumbersEndNobody) {
  StartEngine(WithFolders());
  Beside([&] {
    for (int i = 0; i < 4; ++i) Attack("wasi_corners");
  });
  for (const auto& attacker : attackers_) {
    const wasm::Exit exit = attacker->Wait();
    EXPECT_NE(exit.kind, Kind::kCancelled) << exit.text;
  }
}

}  // namespace
}  // namespace pie::host
