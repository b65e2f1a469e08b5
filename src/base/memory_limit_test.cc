#include "base/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace pie {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A machine of 16 GiB, as its files describe it.
class Machine {
 public:
  Machine() { Write("proc/meminfo", "MemFree: 12 kB\nMemTotal:       16777216 kB\n"); }
  ~Machine() { std::filesystem::remove_all(root_); }

  Machine& Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
    return *this;
  }
  MemoryLimit Read() const { return ReadMemoryLimit(root_); }

 private:
  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / ("pie-memory-" + std::to_string(getpid()));
};

TEST(MemoryLimit, WithoutGroupsItIsTheMachines) {
  Machine machine;
  EXPECT_EQ(machine.Read().bytes(), 16 * kGiB);
  EXPECT_EQ(machine.Read().group, 0U);
  machine.Write("proc/self/cgroup", "0::/\n").Write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(machine.Read().bytes(), 16 * kGiB);
}

TEST(MemoryLimit, OfVersionTwoTheLeastOfTheGroupAndItsParentsCounts) {
  Machine machine;
  machine.Write("proc/self/cgroup", "0::/system.slice/pie.service\n")
      .Write("sys/fs/cgroup/system.slice/pie.service/memory.max", "4294967296\n");
  EXPECT_EQ(machine.Read().bytes(), 4 * kGiB);
  machine.Write("sys/fs/cgroup/system.slice/memory.max", "2147483648\n");
  EXPECT_EQ(machine.Read().bytes(), 2 * kGiB);
  EXPECT_EQ(machine.Read().machine, 16 * kGiB);
  machine.Write("sys/fs/cgroup/system.slice/memory.max", "max\n");
  EXPECT_EQ(machine.Read().bytes(), 4 * kGiB);
}

TEST(MemoryLimit, AContainerThatSeesAPathOfItsHostHasTheLimitOfItsRoot) {
  Machine machine;
  machine.Write("proc/self/cgroup", "0::/docker/0123abcd\n")
      .Write("sys/fs/cgroup/memory.max", "1073741824\n");
  EXPECT_EQ(machine.Read().bytes(), kGiB);
}

TEST(MemoryLimit, OfVersionOneToo) {
  Machine machine;
  machine.Write("proc/self/cgroup", "9:cpu,cpuacct:/\n4:hugetlb,memory:/job/one\n0::/\n")
      .Write("sys/fs/cgroup/memory/job/one/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(machine.Read().group, 0U);
  machine.Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3221225472\n");
  EXPECT_EQ(machine.Read().bytes(), 3 * kGiB);
}

TEST(MemoryLimit, AGroupThatMayUseMoreThanTheMachineHasDoesNotCount) {
  Machine machine;
  machine.Write("proc/self/cgroup", "0::/\n").Write("sys/fs/cgroup/memory.max", "34359738368\n");
  EXPECT_EQ(machine.Read().bytes(), 16 * kGiB);
}

TEST(MemoryLimit, MalformedFilesSetNoLimit) {
  Machine machine;
  machine.Write("proc/self/cgroup", "\n:\nmemory\n0::\n0::relative\n::::\n")
      .Write("sys/fs/cgroup/memory.max", "\n");
  EXPECT_EQ(machine.Read().bytes(), 16 * kGiB);
  machine.Write("proc/meminfo", "nothing");
  EXPECT_EQ(machine.Read().machine, ReadMemoryLimit().machine);
  EXPECT_GT(ReadMemoryLimit().bytes(), 0U);
}

}  // namespace
}  // namespace pie
