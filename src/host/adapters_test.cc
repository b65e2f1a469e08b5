#include "host/adapters.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "host/adapter_testing.h"
#include "model/adapter/peft.h"
#include "model/adapter/zo.h"
#include "sched/scheduler.h"

namespace pie::host {
namespace {

namespace fs = std::filesystem;

class AdapterFilesTest : public ::testing::Test {
 protected:
  AdapterFilesTest() : folder_(TestFolder()) {
    scheduler_ = std::make_unique<Scheduler>(MakeDummyBackend({}), SchedulerOptions{});
    Start();
  }
  ~AdapterFilesTest() override {
    adapters_.reset();
    fs::remove_all(folder_);
  }
  void Start() {
    adapters_.reset();
    adapters_ = std::make_unique<Adapters>(limits_, folder_,
                                           std::vector<ModelRef>{{"default", scheduler_.get()}});
  }
  Status Load(const Adapters::Ptr& adapter, float number) {
    const PeftFiles files = *WritePeft(Weights(number), DummyAdapterShape());
    return adapters_->Load(adapter, files.config, std::as_bytes(std::span(files.tensors)));
  }
  template <class T>
  static std::string ErrorOf(const Result<T>& answer) {
    return answer ? "" : answer.error().text;
  }
  static float NumberOf(const Adapters::Ptr& adapter) {
    return (*adapter->current())->weights->layers.at(1)[2].b[3];
  }

  Limits limits_;
  const std::string folder_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Adapters> adapters_;
};

TEST_F(AdapterFilesTest, AdaptersOutliveTheEngine) {
  {
    const auto adapter = *adapters_->Create("ann", 0, "a");
    ASSERT_TRUE(Load(adapter, 7));
    ASSERT_TRUE(adapters_->Initialize(adapter, 2, 4, *StartZo(2, 1, 0.5F)));
    ASSERT_TRUE(
        adapters_->Update(adapter, std::vector<float>{1, 0}, std::vector<int64_t>{3, -3}, 1));
    EXPECT_NE(NumberOf(adapter), 7);
  }
  const auto before = *(*(*adapters_->Open("ann", 0, "a"))->current())->weights;
  Start();
  const auto again = *adapters_->Open("ann", 0, "a");
  ASSERT_TRUE(again);
  EXPECT_EQ((*again->current())->weights->layers[1][2].b, before.layers[1][2].b);
  EXPECT_EQ((*again->current())->zo.generations, 1u);
  EXPECT_EQ((*again->current())->zo.scores.size(), 2u);
  EXPECT_FALSE(*adapters_->Open("eve", 0, "a"));
  EXPECT_EQ(adapters_->stats().loads, 1u);
  ASSERT_TRUE(adapters_->Destroy(again));
  Start();
  EXPECT_FALSE(*adapters_->Open("ann", 0, "a"));
}

TEST_F(AdapterFilesTest, AdaptersThatNobodyHoldsAreEvicted) {
  const size_t each = Weights(1).parameters() * 8;
  limits_.max_adapter_memory = 6 * each;  // a user has half of it
  Start();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(Load(*adapters_->Create("ann", 0, std::to_string(i)), static_cast<float>(i + 1)));
  }
  EXPECT_GE(adapters_->stats().evictions, 5u);
  EXPECT_LE(adapters_->stats().bytes, 3 * each);
  EXPECT_EQ(NumberOf(*adapters_->Open("ann", 0, "0")), 1);
  // Adapters that are held stay in memory, and the next one is refused.
  std::vector<Adapters::Ptr> held;
  std::string error;
  for (int i = 0; i < 8; ++i) {
    auto opened = adapters_->Open("ann", 0, std::to_string(i));
    if (opened) held.push_back(*opened);
    if (!opened) error = opened.error().text;
  }
  EXPECT_GE(held.size(), 2u);
  EXPECT_NE(error.find("memory"), std::string::npos);
  // There is still room for the adapters of other users.
  EXPECT_TRUE(Load(*adapters_->Create("eve", 0, "a"), 1));
}

TEST_F(AdapterFilesTest, VersionsThatPassesUseAreCharged) {
  limits_.max_adapter_memory = 6 * Weights(1).parameters() * 8;
  Start();
  const auto adapter = *adapters_->Create("ann", 0, "a");
  std::vector<DeviceAdapterPtr> used;  // held as passes in flight would hold them
  while (used.size() < 20 && Load(adapter, 1)) used.push_back((*adapter->current())->device);
  EXPECT_GE(used.size(), 2u);
  EXPECT_LE(used.size(), 5u);
  EXPECT_TRUE(Load(*adapters_->Create("eve", 0, "a"), 1)) << "other users still have room";
  used.clear();
  EXPECT_TRUE(Load(adapter, 1));
}

// Weights that there is no room for are neither computed nor read.
TEST_F(AdapterFilesTest, RoomIsTakenBeforeWeightsAreMade) {
  const size_t each = Weights(1).parameters() * sizeof(float);
  ASSERT_TRUE(Load(*adapters_->Create("ann", 0, "damaged"), 1));
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (!entry.is_regular_file()) continue;
    const float nan = std::nanf("");
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-static_cast<std::streamoff>(sizeof(nan)), std::ios::end);
    file.write(reinterpret_cast<const char*>(&nan), sizeof(nan));
  }
  // A user has half of it: enough for two versions with what the device has of them, and for half
  // of another one's weights.
  limits_.max_adapter_memory = 9 * each;
  Start();
  EXPECT_NE(ErrorOf(adapters_->Open("ann", 0, "damaged")).find("tensor"), std::string::npos);
  const auto tuned = *adapters_->Create("ann", 0, "tuned");
  const Status begun = adapters_->Initialize(tuned, 2, 4, *StartZo(2, 1, 0.5F));
  ASSERT_TRUE(begun) << begun.error().text;
  std::vector<std::shared_ptr<const AdapterVersion>> versions;  // held as passes would hold them
  bool asked = false;
  Status updated;
  for (int i = 0; i < 20 && updated; ++i) {
    versions.push_back(*tuned->current());
    asked = false;
    updated = adapters_->Update(tuned, std::vector<float>{1, 0}, std::vector<int64_t>{3, -3}, 1,
                                [&asked] { return asked = true, false; });
  }
  EXPECT_NE(ErrorOf(updated).find("MiB of memory"), std::string::npos) << ErrorOf(updated);
  EXPECT_FALSE(asked) << "the update was computed";
  const std::string opened = ErrorOf(adapters_->Open("ann", 0, "damaged"));
  EXPECT_NE(opened.find("MiB of memory"), std::string::npos) << opened;
}

TEST_F(AdapterFilesTest, AListReadsNoWeights) {
  ASSERT_TRUE(Load(*adapters_->Create("ann", 0, "a"), 1));
  fs::path path;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (entry.is_regular_file()) path = entry.path();
  }
  // A file of a gigabyte that takes no room on the disk.
  constexpr uint64_t kBytes = uint64_t{1} << 30;
  const std::string header =
      R"({"__metadata__":{"pie.user":"ann","pie.model":"default","pie.name":"a"},)"
      R"("x":{"dtype":"F32","shape":[268435456],"data_offsets":[0,1073741824]}})";
  const uint64_t length = header.size();
  {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length)) << header;
  }
  fs::resize_file(path, sizeof(length) + length + kBytes);
  Start();
  const auto peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = peak_kib();
  const auto listed = adapters_->List("ann", 10);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_GT(listed[0].bytes, kBytes);
  EXPECT_LT(peak_kib() - before, 64 << 10);
}

TEST_F(AdapterFilesTest, AUserHasSoManyAndNoMore) {
  limits_.max_adapters = 2;
  ASSERT_TRUE(adapters_->Create("ann", 0, "a"));
  ASSERT_TRUE(adapters_->Create("ann", 0, "b"));
  EXPECT_FALSE(adapters_->Create("ann", 0, "c"));
  EXPECT_FALSE(*adapters_->Open("ann", 0, "c"));
  ASSERT_TRUE(adapters_->Create("eve", 0, "c"));
  EXPECT_EQ(adapters_->NamesOf("ann", 0), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(adapters_->NamesOf("eve", 0), std::vector<std::string>{"c"});
  EXPECT_EQ(adapters_->NamesOf("nobody", 0), std::vector<std::string>());
  limits_.max_adapters = 100;
  limits_.max_adapter_bytes = 2'000;
  const auto adapter = *adapters_->Open("ann", 0, "a");
  const auto version = (*adapter->current())->number;
  EXPECT_FALSE(Load(adapter, 1));
  EXPECT_EQ((*adapter->current())->number, version);
}

TEST_F(AdapterFilesTest, DamagedFilesAreErrors) {
  ASSERT_TRUE(Load(*adapters_->Create("ann", 0, "a"), 1));
  std::string path;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (entry.path().extension() == ".adapter") path = entry.path();
  }
  const auto size = fs::file_size(path);
  for (size_t cut = 1; cut < size; cut += size / 20 + 1) {
    Start();
    fs::resize_file(path, size - cut);
    const auto opened = adapters_->Open("ann", 0, "a");
    ASSERT_FALSE(opened) << cut;
    EXPECT_NE(opened.error().text.find("'a'"), std::string::npos);
  }
}

}  // namespace
}  // namespace pie::host
