#include "base/mapping_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace pie {
namespace {

constexpr size_t kBytes = 1 << 20;

class MappingGuardTest : public testing::Test {
 protected:
  MappingGuardTest() {
    std::string path = testing::TempDir() + "/mapping-XXXXXX";
    fd_ = mkstemp(path.data());
    unlink(path.c_str());
    const std::string content(kBytes, 'x');
    EXPECT_EQ(write(fd_, content.data(), content.size()), static_cast<ssize_t>(kBytes));
    map_ = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd_, 0);
  }
  ~MappingGuardTest() override {
    munmap(map_, kBytes);
    close(fd_);
  }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(map_), kBytes}; }
  char At(size_t i) const { return static_cast<const volatile char*>(map_)[i]; }

  int fd_;
  void* map_;
};

TEST_F(MappingGuardTest, WhatIsLostReadsAsZeros) {
  const MappingGuard guard(bytes());
  EXPECT_EQ(At(kBytes - 1), 'x');
  ASSERT_EQ(ftruncate(fd_, kBytes / 2), 0);
  EXPECT_FALSE(guard.lost());
  EXPECT_EQ(At(kBytes / 2 - 1), 'x');
  EXPECT_FALSE(guard.lost()) << "that is still there";
  EXPECT_EQ(At(kBytes / 2 + 5'000), 0);
  EXPECT_TRUE(guard.lost());
  EXPECT_EQ(At(kBytes / 2), 0);
  EXPECT_EQ(At(kBytes - 1), 0);
}

TEST_F(MappingGuardTest, WritingToWhatIsLostIsNoFault) {
  auto* const map =
      static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
  ASSERT_NE(map, MAP_FAILED);
  {
    const MappingGuard guard({map, kBytes});
    ASSERT_EQ(ftruncate(fd_, kBytes / 2), 0);
    static_cast<volatile std::byte*>(map)[kBytes - 1] = std::byte{1};
    EXPECT_TRUE(guard.lost());
  }
  munmap(map, kBytes);
}

TEST_F(MappingGuardTest, AGuardCanBeMovedAndUsedAgain) {
  for (int i = 0; i < 100; ++i) {
    MappingGuard guard(bytes());
    const MappingGuard moved = std::move(guard);
    EXPECT_FALSE(moved.lost());
  }
  const MappingGuard guard(bytes());
  ASSERT_EQ(ftruncate(fd_, 0), 0);
  EXPECT_EQ(At(0), 0);
  EXPECT_TRUE(guard.lost());
}

TEST_F(MappingGuardTest, OtherBusErrorsEndTheProcess) {
  ASSERT_DEATH(
      {
        const MappingGuard guard(bytes());
        void* other = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd_, 0);
        if (ftruncate(fd_, 0) != 0) return;
        // Of a mapping that has no guard.
        static_cast<void>(*static_cast<const volatile char*>(other));
      },
      "");
}

}  // namespace
}  // namespace pie
