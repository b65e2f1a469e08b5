#include "backend/cpu/machine/prefault.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "backend/cpu/machine/arena.h"

namespace pie::cpu {
namespace {

constexpr size_t kBytes = size_t{16} << 20;

// Returns how many bytes of `memory` are resident.
size_t Resident(std::span<std::byte> memory) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> there((memory.size() + page - 1) / page);
  EXPECT_EQ(mincore(memory.data(), memory.size(), there.data()), 0);
  return page * static_cast<size_t>(std::ranges::count_if(there, [](auto p) { return p & 1; }));
}

bool SystemCan(std::span<std::byte> memory) {
  return madvise(memory.data(), 0, 23) == 0;
}

TEST(Prefault, MakesTheGivenNumberOfBytesResident) {
  Arena arena;
  const std::span memory(*arena.Allocate(kBytes), kBytes);
  if (!SystemCan(memory)) GTEST_SKIP() << "this system cannot prefault memory";
  EXPECT_EQ(Resident(memory), 0U);
  Prefault(memory, kBytes / 2).Wait();
  EXPECT_EQ(Resident(memory), kBytes / 2);
  Prefault(memory, SIZE_MAX).Wait();
  EXPECT_EQ(Resident(memory), kBytes);
}

TEST(Prefault, KeepsConcurrentWrites) {
  Arena arena;
  const std::span memory(*arena.Allocate(kBytes), kBytes);
  Prefault prefault(memory, kBytes);
  for (size_t i = 0; i < kBytes; i += 997) memory[i] = std::byte(i % 251);
  prefault.Wait();
  for (size_t i = 0; i < kBytes; i += 997) ASSERT_EQ(memory[i], std::byte(i % 251)) << i;
}

TEST(Prefault, StopsWhenItIsDestroyed) {
  Arena arena;
  const std::span memory(*arena.Allocate(kBytes), kBytes);
  for (int i = 0; i < 20; ++i) Prefault prefault(memory, kBytes);
  Prefault nothing;
  nothing.Wait();
}

}  // namespace
}  // namespace pie::cpu
