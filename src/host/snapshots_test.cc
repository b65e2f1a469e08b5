// Tests snapshots in files: what they restore, which users and models they refuse, and what a kill
// or a power cut leaves.
#include "host/snapshots.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "backend/sampling.h"

namespace {

// One flush to the disk: of a file, or of a folder with the snapshots that it had at that moment.
std::mutex flush_mutex;
std::vector<std::string> flushed;

}  // namespace

// Replaces the function of the C library.
extern "C" int fsync(int fd) {
  namespace fs = std::filesystem;
  const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(fd));
  std::string entry = path.extension();
  if (fs::is_directory(path)) {
    size_t count = 0;
    for (const auto& file : fs::directory_iterator(path)) {
      count += file.path().extension() == ".snapshot" ? 1 : 0;
    }
    entry = "folder of " + std::to_string(count);
  }
  const std::lock_guard lock(flush_mutex);
  flushed.push_back(entry);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace pie::host {
namespace {

namespace fs = std::filesystem;

// A device, and snapshots in a folder that outlives both.
struct Machine {
  Machine(const std::string& folder, const Limits& limits, DummyOptions options)
      : device(options),
        scheduler(MakeDummyBackend(options), {.check_integrity = true}),
        snapshots(limits, folder, {{"small", &scheduler}, {"other", &scheduler}}) {}

  DummyOptions device;
  Scheduler scheduler;
  Snapshots snapshots;
};

class SnapshotFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "snapshots-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    Restart();
  }
  void TearDown() override {
    machine_.reset();
    fs::remove_all(folder_);
  }
  void Restart(DummyOptions options = {.page_tokens = 4, .total_pages = 64}) {
    machine_.reset();
    machine_.emplace(folder_ + "/deep/snapshots", limits_, options);
  }
  Snapshots& snapshots() { return machine_->snapshots; }

  std::unique_ptr<Context> WithTokens(uint32_t count, uint32_t first = 'a', uint32_t model = 0) {
    auto context = std::make_unique<Context>(&machine_->scheduler, model,
                                             machine_->scheduler.Create(), Extent{});
    EXPECT_TRUE(context->Reserve(count / 4 + 1));
    Append(*context, count, first);
    return context;
  }
  // The greedy token after it.
  uint32_t Append(Context& context, uint32_t count, uint32_t first) {
    auto slot = std::make_shared<std::promise<Result<std::vector<Slot>>>>();
    Forward forward;
    for (uint32_t i = 0; i < count; ++i) {
      forward.tokens.push_back(first + i);
      forward.positions.push_back(context.tokens() + i);
    }
    forward.samples = {{.rows = {count - 1}}};
    forward.done = [slot](auto result) { slot->set_value(std::move(result)); };
    if (Status queued = context.Execute(std::move(forward)); !queued) {
      last_error_ = queued.error().text;
      return UINT32_MAX;
    }
    const auto result = slot->get_future().get();
    last_error_ = result ? "" : result.error().text;
    return result ? std::get<TokenSlot>(result->at(0)).token : UINT32_MAX;
  }
  Status Ended(const Result<std::shared_ptr<Saving>>& saving) {
    if (!saving) return std::unexpected(saving.error());
    while (!(*saving)->ready()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    auto name = (*saving)->Take();
    if (!name) return std::unexpected(name.error());
    last_name_ = *name;
    return {};
  }
  Status Save(std::string_view user, std::string_view name, const Context& context) {
    return Ended(snapshots().Save(user, name, context));
  }
  uint64_t Computed() {
    EXPECT_TRUE(machine_->scheduler.WaitIdle(5000));
    return machine_->scheduler.stats().tokens;
  }
  std::vector<fs::path> Files() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.path().extension() == ".snapshot") files.push_back(entry.path());
    }
    return files;
  }
  size_t Unfinished() {
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      count += entry.path().extension() == ".unfinished" ? 1 : 0;
    }
    return count;
  }

  std::string folder_;
  Limits limits_;
  std::optional<Machine> machine_;
  std::string last_error_;
  std::string last_name_;  // of the last save that ended
};

TEST_F(SnapshotFilesTest, SurviveARestartAndAreNotComputedAgain) {
  uint32_t expected = 0;
  {
    auto context = WithTokens(30);
    ASSERT_TRUE(context->Commit(5));
    const Status saved = Save("ada", "s", *context);
    ASSERT_TRUE(saved) << saved.error().text;
    expected = Append(*context, 1, 'x');  // later changes are not in it
    ASSERT_EQ(last_error_, "");
  }
  EXPECT_EQ(snapshots().size(), 0u) << "an opened context holds no pages";
  Restart();
  auto opened = snapshots().Open("ada", 0, "s");
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ((*opened)->extent().committed_pages, 5u);
  EXPECT_EQ((*opened)->extent().working_pages, 3u);
  EXPECT_EQ((*opened)->extent().working_tokens, 10u);
  EXPECT_EQ(Append(**opened, 1, 'x'), expected);
  EXPECT_EQ(Computed(), 1u) << "only the new token";
  EXPECT_EQ(machine_->scheduler.stats().pages_restored, 8u);
  // The same while all pages but the partial one are in memory.
  auto again = snapshots().Open("ada", 0, "s");
  ASSERT_TRUE(again);
  EXPECT_EQ(Append(**again, 1, 'x'), expected);
  EXPECT_EQ(Computed(), 2u);
  EXPECT_EQ(machine_->scheduler.stats().pages_restored, 9u);
}

TEST_F(SnapshotFilesTest, TakeAndDeleteRemove) {
  auto context = WithTokens(9);
  ASSERT_TRUE(Save("ada", "s", *context));
  auto taken = snapshots().Take("ada", 0, "s");
  ASSERT_TRUE(taken);
  EXPECT_EQ(Files().size(), 0u);
  EXPECT_EQ(snapshots().Take("ada", 0, "s").error().text, "no snapshot is named 's'");
  EXPECT_EQ(snapshots().Open("ada", 0, "s").error().code, Code::kNotFound);
  EXPECT_EQ(snapshots().Delete("ada", 0, "s").error().code, Code::kNotFound);
  const uint32_t expected = Append(*context, 1, 'x');
  EXPECT_EQ(Append(**taken, 1, 'x'), expected) << "the taken context is complete";
  ASSERT_TRUE(Save("ada", "s", **taken));
  EXPECT_TRUE(snapshots().Delete("ada", 0, "s"));
  EXPECT_EQ(Files().size(), 0u);
}

TEST_F(SnapshotFilesTest, AnOpenedOneCanBeSavedAndForkedBeforeItRuns) {
  ASSERT_TRUE(Save("ada", "s", *WithTokens(9)));
  Restart({.page_tokens = 4, .total_pages = 64});
  auto opened = *snapshots().Open("ada", 0, "s");
  ASSERT_TRUE(Save("ada", "t", *opened));
  ASSERT_TRUE(opened->Truncate(3));
  auto fork = *opened->Fork();
  auto copy = *snapshots().Open("ada", 0, "t");
  EXPECT_EQ(copy->tokens(), 9u);
  const uint32_t token = Append(*fork, 1, 'x');
  EXPECT_EQ(Append(*opened, 1, 'x'), token);
  EXPECT_EQ(Append(*WithTokens(6), 1, 'x'), token);
}

TEST_F(SnapshotFilesTest, UsersAndModelsAreApart) {
  ASSERT_TRUE(Save("ada", "s", *WithTokens(5)));
  EXPECT_EQ(snapshots().Open("bob", 0, "s").error().text, "no snapshot is named 's'");
  EXPECT_EQ(snapshots().Delete("bob", 0, "s").error().code, Code::kNotFound);
  EXPECT_EQ(snapshots().Open("ada", 1, "s").error().code, Code::kNotFound);
  // The snapshot is refused even if a person has moved the files.
  ASSERT_TRUE(Save("bob", "s", *WithTokens(6)));
  const auto files = Files();
  ASSERT_EQ(files.size(), 2u);
  fs::copy_file(files[0], files[1], fs::copy_options::overwrite_existing);
  const bool ada_is_wrong = !snapshots().Open("ada", 0, "s");
  EXPECT_NE(ada_is_wrong, !snapshots().Open("bob", 0, "s"));
  const auto refused = snapshots().Open(ada_is_wrong ? "ada" : "bob", 0, "s");
  EXPECT_NE(refused.error().text.find("another user"), std::string::npos) << refused.error().text;
}

TEST_F(SnapshotFilesTest, AnotherModelAndAnotherLayoutAreRefused) {
  ASSERT_TRUE(Save("ada", "s", *WithTokens(5)));
  Restart({.seed = 1, .page_tokens = 4, .total_pages = 64});
  EXPECT_NE(snapshots().Open("ada", 0, "s").error().text.find("another model"), std::string::npos);
  EXPECT_FALSE(snapshots().Take("ada", 0, "s"));
  Restart({.page_tokens = 8, .total_pages = 64});
  const std::string text = snapshots().Open("ada", 0, "s").error().text;
  EXPECT_NE(text.find("8 tokens a page"), std::string::npos) << text;
  EXPECT_NE(text.find("4 tokens a page"), std::string::npos) << text;
  EXPECT_EQ(Files().size(), 1u) << "a take that fails takes nothing";
  Restart();
  EXPECT_TRUE(snapshots().Open("ada", 0, "s"));
}

TEST_F(SnapshotFilesTest, NamesAreJustNames) {
  auto context = WithTokens(3);
  for (const std::string& name :
       {std::string("../../evil"), std::string("a/b"), std::string("\0x", 2), std::string("ü\xff"),
        std::string(256, 'n'), std::string(".")}) {
    ASSERT_TRUE(Save("../ada", name, *context));
    EXPECT_TRUE(snapshots().Open("../ada", 0, name));
  }
  EXPECT_EQ(Files().size(), 6u);
  for (const fs::path& file : Files()) {
    EXPECT_TRUE(file.string().starts_with(folder_ + "/deep/snapshots/"));
  }
  EXPECT_EQ(Save("ada", "", *context).error().text, "a snapshot needs a name");
  EXPECT_FALSE(Save("ada", std::string(257, 'n'), *context));
}

TEST_F(SnapshotFilesTest, EachUserHasAQuota) {
  limits_.max_snapshots = 2;
  auto context = WithTokens(9);
  ASSERT_TRUE(Save("ada", "1", *context));
  ASSERT_TRUE(Save("ada", "2", *context));
  EXPECT_EQ(Save("ada", "3", *context).error().text,
            "user ada has 2 snapshots already; delete some");
  EXPECT_TRUE(Save("ada", "2", *context)) << "replacing adds none";
  EXPECT_TRUE(Save("bob", "3", *context));
  limits_.max_snapshots = 10;
  limits_.max_snapshot_bytes = 2 * fs::file_size(Files()[0]) + 8;
  const Status full = Save("ada", "3", *context);
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().text.find("MiB"), std::string::npos) << full.error().text;
  EXPECT_EQ(Unfinished(), 0u);
}

TEST_F(SnapshotFilesTest, AFullDiskIsAnErrorAndTheOldOneStays) {
  ASSERT_TRUE(Save("ada", "s", *WithTokens(40)));
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = fs::file_size(Files()[0]) - 1, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status saved = Save("ada", "s", *WithTokens(40, 'A'));
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().text.find("disk is full"), std::string::npos) << saved.error().text;
  EXPECT_EQ(Unfinished(), 0u);
  auto opened = snapshots().Open("ada", 0, "s");
  ASSERT_TRUE(opened);
  EXPECT_EQ(Append(**opened, 1, 'x'), Append(*WithTokens(40), 1, 'x'));
}

TEST_F(SnapshotFilesTest, ADamagedPageFailsThePassThatNeedsIt) {
  ASSERT_TRUE(Save("ada", "s", *WithTokens(40)));
  {
    std::fstream file(Files()[0], std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-20, std::ios::end);
    file.put('!');
  }
  Restart();
  auto opened = snapshots().Open("ada", 0, "s");
  ASSERT_TRUE(opened);
  EXPECT_EQ(Append(**opened, 1, 'x'), UINT32_MAX);
  EXPECT_NE(last_error_.find("damaged"), std::string::npos) << last_error_;
  EXPECT_NE(Append(*WithTokens(4), 1, 'x'), UINT32_MAX) << "other contexts go on";
}

TEST_F(SnapshotFilesTest, ManyAtOnceAreAllThere) {
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<Result<std::shared_ptr<Saving>>> savings;
  for (uint32_t i = 0; i < 12; ++i) {
    contexts.push_back(WithTokens(1 + i));
    savings.push_back(snapshots().SaveUnnamed("ada", *contexts.back()));
  }
  contexts.clear();
  for (uint32_t i = 0; i < 12; ++i) {
    ASSERT_TRUE(Ended(savings[i]));
    auto opened = snapshots().Open("ada", 0, last_name_);
    ASSERT_TRUE(opened);
    EXPECT_EQ((*opened)->tokens(), 1 + i);
  }
  EXPECT_TRUE(machine_->scheduler.WaitIdle(5000));
  EXPECT_EQ(machine_->scheduler.stats().pages_used, 0u);
}

TEST_F(SnapshotFilesTest, TooManyAtOnceAreRefused) {
  limits_.max_queued_saves = 0;
  Restart();
  const Status refused = Save("ada", "s", *WithTokens(3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text, "0 saves wait already; try again later");
  limits_.max_queued_saves = 1'024;
  Restart();
  EXPECT_TRUE(Save("ada", "s", *WithTokens(3)));
}

TEST_F(SnapshotFilesTest, ABrokenContextCannotBeSaved) {
  auto context = WithTokens(3);
  // A pass that no context would queue: it is longer than the device's longest sequence.
  Forward forward{.sequence = context->sequence()};
  forward.tokens.assign(context->scheduler().info().max_positions + 1, 'x');
  forward.positions.assign(forward.tokens.size(), 3);
  context->scheduler().Execute(std::move(forward));
  const Status saved = Save("ada", "s", *context);
  ASSERT_FALSE(saved);
  EXPECT_EQ(Files().size(), 0u);
  context->Destroy();
  EXPECT_EQ(Save("ada", "s", *context).error().text, "this context was destroyed");
}

TEST_F(SnapshotFilesTest, AFolderThatCannotBeWrittenIsAnError) {
  std::ofstream(folder_ + "/deep") << "in the way";
  const Status saved = Save("ada", "s", *WithTokens(3));
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().text.find("cannot make the folder of snapshots"), std::string::npos);
}

// After a power cut the disk holds what was flushed. So the new file is flushed before its name,
// and the removal of a name before the call returns.
TEST_F(SnapshotFilesTest, WhatIsDoneIsOnTheDisk) {
  const auto flushes = [] {
    const std::lock_guard lock(flush_mutex);
    return std::exchange(flushed, {});
  };
  using Flushes = std::vector<std::string>;
  auto context = WithTokens(9);
  flushes();
  ASSERT_TRUE(Save("ada", "s", *context));
  EXPECT_EQ(flushes(), Flushes({"folder of 0", "folder of 0", ".unfinished", "folder of 1"}));
  ASSERT_TRUE(Save("ada", "t", *context));
  EXPECT_EQ(flushes(), Flushes({".unfinished", "folder of 2"}));
  ASSERT_TRUE(snapshots().Take("ada", 0, "s"));
  EXPECT_EQ(flushes(), Flushes({"folder of 1"}));
  ASSERT_TRUE(snapshots().Delete("ada", 0, "t"));
  EXPECT_EQ(flushes(), Flushes({"folder of 0"}));
}

// Saves again and again until the process is killed. The content of "s" tells which save was last.
[[noreturn]] void SaveForever(const std::string& folder) {
  const Limits limits;
  Machine machine(folder, limits, {.page_tokens = 4, .total_pages = 256});
  for (uint32_t round = 0;; ++round) {
    const uint32_t count = 100 + round % 50;
    auto context =
        std::make_unique<Context>(&machine.scheduler, 0, machine.scheduler.Create(), Extent{});
    Forward forward;
    for (uint32_t i = 0; i < count; ++i) {
      forward.tokens.push_back(count % 100);
      forward.positions.push_back(i);
    }
    if (!context->Reserve(count / 4 + 1) || !context->Execute(std::move(forward))) _exit(1);
    auto saving = machine.snapshots.Save("ada", "s", *context);
    if (!saving) _exit(1);
    while (!(*saving)->ready()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (!(*saving)->Take()) _exit(1);
  }
}

TEST_F(SnapshotFilesTest, KilledAtAnyMomentThereIsTheOldOrTheNew) {
  machine_.reset();  // no threads while a process is forked
  // Use a folder in memory if there is one: saves are faster there, so more moments are tried.
  std::string pattern = fs::is_directory("/dev/shm") ? "/dev/shm/snapshots-XXXXXX"
                                                     : testing::TempDir() + "snapshots-XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  std::mt19937 random(1);
  int opened = 0;
  for (int round = 0; round < 40; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) SaveForever(pattern);
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + random() % 20'000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the process failed before it was killed";

    const SnapshotStore store(pattern, limits_);
    const auto file = store.Open({"ada", "small", "s"});
    if (!file && file.error().code == Code::kNotFound && opened == 0) continue;
    ASSERT_TRUE(file) << file.error().text;
    ++opened;
    const auto rows = (*file)->rows();
    ASSERT_TRUE(
        std::ranges::all_of(rows.tokens, [&](uint32_t t) { return t == rows.size() % 100; }));
    for (uint32_t page = 0; page < (*file)->pages(); ++page) ASSERT_TRUE((*file)->Page(page));
  }
  EXPECT_GT(opened, 20) << "nearly every killed process leaves a snapshot";
  fs::remove_all(pattern);
}

}  // namespace
}  // namespace pie::host
