#include "kv/snapshot_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "base/thread_team.h"

namespace pie {
namespace {

class SnapshotFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "snapshot-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    for (uint32_t i = 0; i < 5; ++i) {
      rows_.tokens.push_back(100 + i);
      rows_.positions.push_back(i);
      rows_.masks.push_back({i / 2, 1});
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::byte> PageContent(uint32_t index) const {
    std::vector<std::byte> page(info_.page_bytes);
    for (size_t i = 0; i < page.size(); ++i) page[i] = std::byte(i * 31 + index);
    return page;
  }
  Status Save(const std::string& name) {
    auto writer = SnapshotWriter::Create(folder_);
    if (!writer) return std::unexpected(writer.error());
    PIE_RETURN_IF_ERROR(writer->Write(SnapshotHead(info_, rows_.view())));
    for (uint32_t i = 0; i < 3; ++i) PIE_RETURN_IF_ERROR(writer->WritePage(i, PageContent(i)));
    PIE_RETURN_IF_ERROR(writer->Sync());
    return writer->Commit(name);
  }
  // Reads the whole file. Returns the first error.
  Status Verify(const std::string& path, bool* same = nullptr) {
    auto file = SnapshotFile::Open(path);
    if (!file) return std::unexpected(file.error());
    bool equal = (*file)->info().user == info_.user && (*file)->info().name == info_.name &&
                 rows_ == (*file)->rows() && (*file)->pages() == 3;
    for (uint32_t i = 0; i < (*file)->pages(); ++i) {
      auto page = (*file)->Page(i);
      if (!page) return std::unexpected(page.error());
      equal = equal && std::ranges::equal(*page, PageContent(i));
    }
    if (same != nullptr) *same = equal;
    return {};
  }
  std::string Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  void Put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  size_t Files() {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_;
  SnapshotInfo info_{.user = "ann",
                     .model = "default",
                     .name = "a/../b",
                     .fingerprint = "f00d",
                     .layout = "f16",
                     .page_bytes = 40,
                     .page_tokens = 2,
                     .committed_pages = 1,
                     .working_pages = 2,
                     .working_tokens = 3,
                     .saved_at = 1234567890};
  Rows rows_;
};

TEST_F(SnapshotFileTest, AdaptersAreKeptByNameAndGetTheVersionsOfTheEngine) {
  info_.adapters.push_back({.name = "a", .digest = "d1", .version = 7});
  info_.adapters.push_back({.name = "b", .digest = "d2", .version = 4});
  const RowAdapter noisy{.version = 7, .seed = -3, .sigma = 0.5F};
  const RowAdapter first{.version = 7}, second{.version = 4};
  rows_.adapters = {RowAdapter(), second, second, noisy, first};
  ASSERT_TRUE(Save("x"));
  const auto file = *SnapshotFile::Open(folder_ + "/x");
  ASSERT_EQ(file->info().adapters.size(), 2U);
  EXPECT_EQ(file->info().adapters[0].name, "a");
  EXPECT_EQ(file->info().adapters[1].digest, "d2");
  // A file that was opened can be written again, as `pie snapshot import` does.
  EXPECT_TRUE(SnapshotHead(file->info(), file->rows()) == SnapshotHead(info_, rows_.view()));
  EXPECT_EQ(SnapshotBytes(info_, rows_.view()), file->bytes());
  file->BindAdapters(std::vector<uint64_t>{7, 4});
  EXPECT_TRUE(rows_ == file->rows());
}

TEST_F(SnapshotFileTest, AdaptersThatDoNotFitAreDamage) {
  info_.adapters.push_back({.name = "a", .digest = "d", .version = 1});
  rows_.adapters.push_back({.version = 1});
  ASSERT_TRUE(Save("x"));
  EXPECT_TRUE(SnapshotFile::Open(folder_ + "/x"));
  const std::string bytes = Bytes(folder_ + "/x");
  for (size_t i = 0; i < bytes.size(); i += 3) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x55);
    Put(folder_ + "/x", changed);
    EXPECT_FALSE(Verify(folder_ + "/x")) << i;
  }
}

// Files of earlier versions must stay readable. These checksums were made by them.
TEST(SnapshotFile, ChecksumsStayTheSame) {
  std::vector<std::byte> bytes;
  for (const auto& [size, sum] : {std::pair(0U, 0x5bfcad08fe0fa955ULL),
                                  {1U, 0x7a3cfb9a764e4e73ULL},
                                  {31U, 0xb99989669da0f357ULL},
                                  {32U, 0x1e8076aa1424c6a3ULL},
                                  {100U, 0x70c292e826982507ULL},
                                  {4109U, 0x09e677b6f005666eULL}}) {
    while (bytes.size() < size) bytes.push_back(static_cast<std::byte>(bytes.size() * 37 + 11));
    PageChecksum whole(3);
    whole.Add(bytes);
    EXPECT_EQ(whole.Sum(), sum) << size;
    PageChecksum pieces(3);
    const size_t middle = bytes.size() / 2 / PageChecksum::kAlign * PageChecksum::kAlign;
    pieces.Add(std::span(bytes).first(middle));
    pieces.Add(std::span(bytes).subspan(middle));
    EXPECT_EQ(pieces.Sum(), sum) << size;
  }
}

// Large contexts are written and read by several threads.
TEST_F(SnapshotFileTest, SeveralThreadsWriteAndReadPages) {
  info_.page_bytes = 10'001;
  info_.page_tokens = 1;
  info_.committed_pages = 40;
  info_.working_pages = info_.working_tokens = 0;
  rows_ = {};
  for (uint32_t i = 0; i < 40; ++i) {
    rows_.tokens.push_back(i);
    rows_.positions.push_back(i);
  }
  ThreadTeam team("test", 4);
  auto writer = SnapshotWriter::Create(folder_);
  ASSERT_TRUE(writer && writer->Write(SnapshotHead(info_, rows_.view())));
  std::atomic<uint32_t> failed = 0;
  team.Run(40, [&](size_t i) {  // the last ones first
    const auto page = static_cast<uint32_t>(39 - i);
    if (!writer->WritePage(page, PageContent(page))) ++failed;
  });
  ASSERT_TRUE(writer->Commit("x"));
  const std::string path = folder_ + "/x";
  EXPECT_EQ(Bytes(path).size(), SnapshotBytes(info_, rows_.view()));
  const auto read = [&](const SnapshotFile& file) {
    team.Run(40, [&](size_t i) {
      const auto page = static_cast<uint32_t>(i);
      std::vector<std::byte> room(info_.page_bytes);
      if (!file.ReadPage(page, room) || room != PageContent(page)) ++failed;
    });
  };
  const auto file = SnapshotFile::Open(path);
  ASSERT_TRUE(file);
  read(**file);
  EXPECT_EQ(failed, 0U);
  // The mapping returns the same contents.
  EXPECT_TRUE(std::ranges::equal(*(*file)->Page(39), PageContent(39)));
  std::string bytes = Bytes(path);
  bytes[bytes.size() - 20'000] ^= 1;  // in the last page but one
  Put(path, bytes);
  const auto damaged = SnapshotFile::Open(path);
  ASSERT_TRUE(damaged);
  read(**damaged);
  EXPECT_EQ(failed, 1U);
  std::filesystem::resize_file(path, bytes.size() - 15'000);
  std::vector<std::byte> room(info_.page_bytes);
  const Status shortened = (*damaged)->ReadPage(39, room);
  ASSERT_FALSE(shortened);
  EXPECT_NE(shortened.error().text.find("shortened"), std::string::npos);
}

TEST_F(SnapshotFileTest, GivesBackWhatWasWritten) {
  ASSERT_TRUE(Save("one"));
  bool same = false;
  const Status status = Verify(folder_ + "/one", &same);
  ASSERT_TRUE(status) << status.error().text;
  EXPECT_TRUE(same);
  EXPECT_EQ(Files(), 1U);
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/one"), SnapshotBytes(info_, rows_.view()));
  auto file = SnapshotFile::Open(folder_ + "/one");
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->info().saved_at, 1234567890);
  EXPECT_EQ((*file)->info().working_tokens, 3U);
  std::filesystem::remove(folder_ + "/one");  // a reader that has it open goes on
  EXPECT_TRUE((*file)->Page(2));
}

TEST_F(SnapshotFileTest, EveryByteCounts) {
  ASSERT_TRUE(Save("one"));
  const std::string bytes = Bytes(folder_ + "/one");
  const std::string path = folder_ + "/spoilt";
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {1, 0x80, 0xFF}) {
      std::string spoilt = bytes;
      spoilt[i] = static_cast<char>(spoilt[i] ^ flip);
      Put(path, spoilt);
      const Status status = Verify(path);
      ASSERT_FALSE(status) << "byte " << i << " of " << bytes.size() << " can be changed unnoticed";
      ASSERT_FALSE(status.error().text.empty());
    }
  }
  for (size_t length = 0; length < bytes.size(); ++length) {
    Put(path, bytes.substr(0, length));
    ASSERT_FALSE(Verify(path)) << length << " bytes are accepted as a whole file";
  }
  Put(path, bytes + "x");
  EXPECT_FALSE(Verify(path));
}

TEST_F(SnapshotFileTest, AFileThatIsShortenedWhileOpenIsNoCrash) {
  ASSERT_TRUE(Save("one"));
  auto file = SnapshotFile::Open(folder_ + "/one");
  ASSERT_TRUE(file);
  std::filesystem::resize_file(folder_ + "/one", 10);
  const auto page = (*file)->Page(0);
  ASSERT_FALSE(page);
  EXPECT_NE(page.error().text.find("damaged"), std::string::npos);
}

TEST_F(SnapshotFileTest, WhatIsMissingOrNoFileIsAnError) {
  EXPECT_EQ(SnapshotFile::Open(folder_ + "/none").error().code, Code::kNotFound);
  EXPECT_FALSE(SnapshotFile::Open(folder_));
  std::filesystem::create_symlink("/etc/passwd", folder_ + "/link");
  EXPECT_FALSE(SnapshotFile::Open(folder_ + "/link"));
}

TEST_F(SnapshotFileTest, AFullDiskLeavesTheOldOne) {
  ASSERT_TRUE(Save("one"));
  const std::string before = Bytes(folder_ + "/one");
  // A limit on the size of files, which write(2) meets as it meets the end of a disk.
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = before.size() / 2, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  info_.saved_at = 7;
  const Status saved = Save("one");
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Code::kExhausted);
  EXPECT_NE(saved.error().text.find("disk is full"), std::string::npos) << saved.error().text;
  EXPECT_EQ(Bytes(folder_ + "/one"), before);
  EXPECT_EQ(Files(), 1U);
}

// Large files in memory are written through mappings, several pages at a time.
class LargeSnapshotTest : public SnapshotFileTest {
 protected:
  static constexpr uint32_t kPages = 20;
  static constexpr size_t kRoom = size_t{1} << 30;

  LargeSnapshotTest() {
    info_.page_bytes = (size_t{4} << 20) + 24;
    content_ = PageContent(0);
  }
  std::vector<std::byte> Content(uint32_t index) const {
    std::vector<std::byte> page = content_;
    page.front() = page.back() = std::byte(index);
    return page;
  }
  uint64_t bytes() const { return kPages * (info_.page_bytes + 8); }
  Status SaveLarge(const std::string& folder) {
    auto writer = SnapshotWriter::Create(folder);
    if (!writer) return std::unexpected(writer.error());
    const std::vector<std::byte> head = SnapshotHead(info_, rows_.view());
    PIE_RETURN_IF_ERROR(writer->Reserve(head.size() + bytes()));
    PIE_RETURN_IF_ERROR(writer->Write(head));
    std::atomic<bool> failed = false;
    Status status;
    ThreadTeam("test", 4).Run(kPages, [&](size_t i) {
      const auto index = static_cast<uint32_t>(i);
      Status written = writer->WritePage(index, Content(index));
      if (!written && !failed.exchange(true)) status = std::move(written);
    });
    PIE_RETURN_IF_ERROR(status);
    PIE_RETURN_IF_ERROR(writer->Sync());
    return writer->Commit("large");
  }
  void SetUp() override {
    SnapshotFileTest::SetUp();
    rows_ = {};
    for (uint32_t i = 0; i < kPages * info_.page_tokens; ++i) {
      rows_.tokens.push_back(i);
      rows_.positions.push_back(i);
    }
    info_.committed_pages = kPages;
    info_.working_pages = info_.working_tokens = 0;
  }
  void ExpectWhole(const std::string& path) {
    const auto file = SnapshotFile::Open(path);
    ASSERT_TRUE(file) << file.error().text;
    ASSERT_EQ((*file)->pages(), kPages);
    std::vector<std::byte> room(info_.page_bytes);
    for (uint32_t i = 0; i < kPages; ++i) {
      const auto page = (*file)->Page(i);
      ASSERT_TRUE(page) << page.error().text;
      EXPECT_TRUE(std::ranges::equal(*page, Content(i))) << i;
      ASSERT_TRUE((*file)->ReadPage(i, room));
      EXPECT_TRUE(std::ranges::equal(room, Content(i))) << i;
    }
  }

  std::vector<std::byte> content_;
};

TEST_F(LargeSnapshotTest, OnADisk) {
  ASSERT_TRUE(SaveLarge(folder_));
  ExpectWhole(folder_ + "/large");
}

TEST_F(LargeSnapshotTest, InMemory) {
  struct statfs system = {};
  std::string folder = "/dev/shm/pie-snapshot-XXXXXX";
  if (statfs("/dev/shm", &system) != 0 || system.f_type != TMPFS_MAGIC ||
      system.f_bavail * static_cast<uint64_t>(system.f_bsize) < kRoom ||
      mkdtemp(folder.data()) == nullptr) {
    GTEST_SKIP() << "/dev/shm has no room";
  }
  for (int round = 0; round < 2; ++round) {  // the second file replaces the first
    const Status saved = SaveLarge(folder);
    EXPECT_TRUE(saved) << saved.error().text;
    ExpectWhole(folder + "/large");
  }
  ASSERT_TRUE(SaveLarge(folder_));
  EXPECT_TRUE(Bytes(folder + "/large") == Bytes(folder_ + "/large"));
  std::filesystem::remove_all(folder);
}

// Runs in a process of its own, which may mount a file system that no other process sees.
TEST_F(LargeSnapshotTest, AFullMemoryLeavesTheOldOne) {
  enum : int { kGood, kCannotMount, kFirstFailed, kNoError, kOtherError, kLeftover, kChanged };
  const std::string user = fmt::format("0 {} 1", getuid());
  const std::string group = fmt::format("0 {} 1", getgid());
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(kCannotMount);
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << user;
    std::ofstream("/proc/self/gid_map") << group;
    const std::string size = fmt::format("size={}", bytes() * 3 / 2);
    if (mount("none", folder_.c_str(), "tmpfs", 0, size.c_str()) != 0) _exit(kCannotMount);
    if (!SaveLarge(folder_)) _exit(kFirstFailed);
    const Status saved = SaveLarge(folder_);
    if (saved) _exit(kNoError);
    if (saved.error().code != Code::kExhausted || !saved.error().text.contains("disk is full")) {
      _exit(kOtherError);
    }
    if (Files() != 1) _exit(kLeftover);
    ExpectWhole(folder_ + "/large");
    _exit(HasFailure() ? kChanged : kGood);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "this process may mount nothing";
  EXPECT_EQ(WEXITSTATUS(status), kGood);
}

TEST_F(SnapshotFileTest, AWriterThatStopsLeavesNothing) {
  {
    auto writer = SnapshotWriter::Create(folder_);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->Write(PageContent(0)));
    EXPECT_EQ(Files(), 1U);
    SnapshotWriter::RemoveAbandoned(folder_);
    EXPECT_EQ(Files(), 1U);  // its writer is still at work
  }
  EXPECT_EQ(Files(), 0U);
  const std::string old = folder_ + "/1-1.unfinished";
  Put(old, "half");
  SnapshotWriter::RemoveAbandoned(folder_);
  EXPECT_EQ(Files(), 1U);  // perhaps just begun
  std::filesystem::last_write_time(
      old, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  SnapshotWriter::RemoveAbandoned(folder_);
  EXPECT_EQ(Files(), 0U);
}

}  // namespace
}  // namespace pie
