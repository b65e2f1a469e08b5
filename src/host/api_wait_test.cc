// Tests calls that use the disk or the compiler. The guest's own thread, which may be the step
// thread, returns at once, and another thread does the work.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include "host/api.h"
#include "host/api_testing.h"

namespace pie::host {
namespace {

namespace fs = std::filesystem;

std::string NewFolder() {
  std::string pattern = ::testing::TempDir() + "pie-wait-XXXXXX";
  return mkdtemp(pattern.data());
}

class ApiWaitTest : public ApiTest {
 protected:
  ApiWaitTest() : ApiWaitTest(NewFolder()) {}
  explicit ApiWaitTest(const std::string& folder) : ApiTest(folder), folder_(folder) {}
  ~ApiWaitTest() override { fs::remove_all(folder_); }

  void Save() {
    Ok(Waited([&](Wait& wait) { return ContextSave(*process_, context_, "s", wait); }));
  }
  fs::path SavedFile() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.path().extension() == ".snapshot") return entry.path();
    }
    return {};
  }
  // Hold the lock of the folder, as another engine that shares the folder would.
  int LockFolder() const {
    const std::string path = SavedFile().parent_path() / "lock";
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(flock(fd, LOCK_EX), 0);
    return fd;
  }

  const std::string folder_;
};

TEST(RunLaterTest, LongWorkKnowsThatNoGuestWaitsAnyMore) {
  std::promise<bool> began, ended;
  WorkQueue queue("pie-test", 1, 8);
  auto pending =
      RunLater<int>(queue, "ann", "calls", [&](const Promise<int>& promise) -> Result<int> {
        began.set_value(promise.abandoned());
        while (!promise.abandoned()) std::this_thread::yield();
        ended.set_value(true);
        return 1;
      });
  ASSERT_TRUE(pending);
  EXPECT_FALSE(began.get_future().get());
  pending->reset();  // the guest has ended
  EXPECT_TRUE(ended.get_future().get());
}

TEST_F(ApiWaitTest, ALaunchLeavesTheGuestsThread) {
  std::promise<void> open;
  std::promise<std::thread::id> entered;
  engine_->SetResolver(
      [&, gate = open.get_future().share()](std::string_view program,
                                            Compiling) -> Result<std::optional<std::string>> {
        entered.set_value(std::this_thread::get_id());
        gate.wait();  // stands for the time that a compiler takes
        return Fail(Code::kNotFound, "{} was looked for", program);
      });
  Wait wait{};
  Ok(RuntimeLaunch(*process_, "big", "{}", wait));
  EXPECT_NE(wait.signal, nullptr) << "the guest waits";
  EXPECT_NE(entered.get_future().get(), std::this_thread::get_id());
  // Meanwhile this thread serves other guests.
  EXPECT_TRUE(BecomesReady(Ok(ForwardPassExecute(*process_, NewPass()))));
  open.set_value();
  Result<uint32_t> child;
  do {
    wait.signal = nullptr;
    child = RuntimeLaunch(*process_, "big", "{}", wait);
  } while (wait.signal != nullptr);
  EXPECT_EQ(ErrorOf(child), "big was looked for");
}

TEST_F(ApiWaitTest, DeletingAndTakingLeaveTheGuestsThread) {
  Save();
  const int lock = LockFolder();
  Wait deleting{};
  Wait taking{};
  Ok(ContextDelete(*process_, model_, "s", deleting));
  EXPECT_NE(deleting.signal, nullptr) << "the guest waits for the folder's lock";
  Ok(ContextTake(*process_, model_, "s", taking));
  EXPECT_NE(taking.signal, nullptr);
  close(lock);
  int served = 0;  // one of the two has the snapshot
  const auto finish = [&](Wait& wait, auto call) {
    while (true) {
      wait.signal = nullptr;
      const auto answer = call(wait);
      if (wait.signal != nullptr) continue;
      served += answer ? 1 : 0;
      EXPECT_EQ(ErrorOf(answer), answer ? "" : "no snapshot is named 's'");
      return;
    }
  };
  finish(deleting, [&](Wait& wait) { return ContextDelete(*process_, model_, "s", wait); });
  finish(taking, [&](Wait& wait) { return ContextTake(*process_, model_, "s", wait); });
  EXPECT_EQ(served, 1);
}

TEST_F(ApiWaitTest, OpeningLeavesTheGuestsThread) {
  Save();
  const std::string path = SavedFile();
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // its reader waits for a writer, as for a slow disk
  Wait wait{};
  Ok(ContextOpen(*process_, model_, "s", wait));
  EXPECT_NE(wait.signal, nullptr) << "the guest waits for the file";
  close(open(path.c_str(), O_WRONLY));
  Result<uint32_t> opened;
  do {
    wait.signal = nullptr;
    opened = ContextOpen(*process_, model_, "s", wait);
  } while (wait.signal != nullptr);
  EXPECT_FALSE(opened) << "a pipe is no snapshot";
}

TEST_F(ApiWaitTest, WhatIsOpenedIsTheGuests) {
  Save();
  const uint32_t opened =
      Ok(Waited([&](Wait& wait) { return ContextOpen(*process_, model_, "s", wait); }));
  EXPECT_EQ(Ok(ContextWorkingPageCount(*process_, opened)), 4u);
  EXPECT_EQ(
      ErrorOf(Waited([&](Wait& wait) { return ContextOpen(*process_, model_, "other", wait); })),
      "no snapshot is named 'other'");
}

}  // namespace
}  // namespace pie::host
