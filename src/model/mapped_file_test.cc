#include "model/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace pie {
namespace {

class TempFile {
 public:
  explicit TempFile(const std::string& bytes) : path_(testing::TempDir() + "mapped_file_test") {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Returns how many bytes of mapped files are resident in this process's memory.
size_t ResidentFileBytes() {
  size_t total = 0;
  size_t resident = 0;
  size_t shared = 0;
  std::ifstream("/proc/self/statm") >> total >> resident >> shared;
  return shared * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(MappedFileTest, ReleasedBytesLeaveMemoryAndComeBack) {
  constexpr size_t kSize = 16 << 20;
  const TempFile temp(std::string(kSize, 'x'));
  const auto file = MappedFile::Open(temp.path());
  ASSERT_TRUE(file);
  const auto bytes = file->bytes();
  const auto count = [&] { return std::ranges::count(bytes, std::byte{'x'}); };
  EXPECT_EQ(count(), kSize);
  const size_t before = ResidentFileBytes();
  file->Release(bytes.subspan(100, kSize / 2));
  EXPECT_LT(ResidentFileBytes() + kSize / 4, before);
  EXPECT_EQ(count(), kSize);
}

TEST(MappedFileTest, ReleasesOnlyItsOwnBytes) {
  const TempFile temp(std::string(1 << 16, 'x'));
  const auto file = MappedFile::Open(temp.path());
  ASSERT_TRUE(file);
  // Anonymous memory would be zero after a release.
  std::vector<std::byte> other(1 << 20, std::byte{7});
  file->Release(other);
  EXPECT_EQ(std::ranges::count(other, std::byte{7}), std::ssize(other));
  file->Release({});
  file->Release(file->bytes().first(10));
  MappedFile().Release(file->bytes());
}

}  // namespace
}  // namespace pie
