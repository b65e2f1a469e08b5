// Adapters as guests use them, on the dummy device.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "host/api_testing.h"
#include "host/guest_files.h"
#include "model/adapter/peft.h"

namespace pie::host {
namespace {

namespace fs = std::filesystem;

std::string TestFolder() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder =
      ::testing::TempDir() + "adapters-" + std::to_string(getpid()) + "-" + test->name();
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

AdapterWeights Weights(float number, uint32_t rank = 2) {
  AdapterWeights weights = *MakeAdapter(DummyAdapterShape(), rank, 4);
  weights.layers[1][2].b[3] = number;
  return weights;
}

class AdapterApiTest : public ApiTest {
 protected:
  using ApiTest::ApiTest;
  uint32_t Create(const std::string& name) {
    return Ok(Waited([&](Wait& wait) { return AdapterCreate(*process_, model_, name, wait); }));
  }
  std::optional<uint32_t> Open(const std::string& name) {
    return Ok(Waited([&](Wait& wait) { return AdapterOpen(*process_, model_, name, wait); }));
  }
  Status Initialize(uint32_t adapter, uint32_t rank = 2, float sigma = 0.5F) {
    return Waited([&](Wait& wait) {
      return ZoInitialize(*process_, adapter, rank, 4, 2, 0.5F, sigma, wait);
    });
  }
  Status Update(uint32_t adapter, const std::vector<float>& scores,
                const std::vector<int64_t>& seeds, float max_sigma = 1) {
    return Waited(
        [&](Wait& wait) { return ZoUpdate(*process_, adapter, scores, seeds, max_sigma, wait); });
  }
  Status LoadWeights(uint32_t adapter, const AdapterWeights& weights) {
    const PeftFiles files = *WritePeft(weights, DummyAdapterShape());
    const auto handle = process_->handles().adapters.Get(adapter);
    return engine_->adapters().Load((*handle)->adapter(), files.config,
                                    std::as_bytes(std::span(files.tensors)));
  }
  // Feeds five tokens to the context under an adapter.
  void RunUnder(uint32_t adapter) {
    Ok(LoadWeights(adapter, Weights(1)));
    const uint32_t pass = NewPass({'a', 'b', 'c', 'd', 'e'});
    Ok(ForwardPassAdapter(*process_, pass, adapter));
    EXPECT_TRUE(BecomesReady(Ok(ForwardPassExecute(*process_, pass))));
  }
  // Returns the logits of the next token after "hello", under an adapter. Calls `meanwhile` while
  // the pass is in flight.
  std::vector<float> Logits(
      std::optional<uint32_t> adapter, std::optional<int64_t> seed = {},
      const std::function<void()>& meanwhile = [] {}) {
    const uint32_t context = Ok(ContextCreate(*process_, model_));
    Ok(ContextReserveWorkingPages(*process_, context, 4));
    const uint32_t pass = Ok(ForwardPassNew(*process_, model_));
    Ok(ForwardPassContext(*process_, pass, context));
    Ok(Input(pass, {'h', 'e', 'l', 'l', 'o'}, {0, 1, 2, 3, 4}));
    Sample(pass, pie_bridge::SamplerKind::Logits, 1, {4});
    if (adapter) Ok(ForwardPassAdapter(*process_, pass, *adapter));
    if (seed) Ok(ZoAdapterSeed(*process_, pass, *seed));
    const uint32_t future = Ok(ForwardPassExecute(*process_, pass));
    meanwhile();
    std::optional<InferenceOutput> output;
    while (!output) output = Ok(FutureOutputGet(*process_, future));
    Ok(ContextDestroy(*process_, context));
    return std::get<LogitsSlot>(output->slots.at(0)).logits;
  }
};

TEST_F(AdapterApiTest, AnExportIsChargedUntilItIsTaken) {
  const uint32_t adapter = Create("exported");
  Ok(LoadWeights(adapter, Weights(1)));
  const auto exported = [&] {
    return Waited([&](Wait& wait) { return AdaptersExportFiles(*process_, adapter, wait); });
  };
  const size_t bytes = Ok(exported()).tensors.size();
  ASSERT_GT(bytes, 2'000u);
  Charge rest = process_->NewCharge();
  while (rest.Grow(64)) {
  }
  rest.Resize(rest.bytes() - bytes / 2);
  EXPECT_NE(ErrorOf(exported()).find("memory limit"), std::string::npos) << ErrorOf(exported());
  // So are the files that are written to a folder, and the scores of an update.
  Charge of_user = ChargeTo(process_->user(), &User::memory);
  while (of_user.Grow(1 << 20)) {
  }
  while (of_user.Grow(64)) {
  }
  const auto saved =
      Waited([&](Wait& wait) { return AdapterSave(*process_, adapter, "/data/x", wait); });
  EXPECT_NE(ErrorOf(saved).find("memory limit"), std::string::npos) << ErrorOf(saved);
  const std::string updated =
      ErrorOf(Update(adapter, std::vector<float>(10'000), std::vector<int64_t>(10'000)));
  EXPECT_NE(updated.find("memory limit"), std::string::npos) << updated;
  of_user.Release();
  rest.Release();
  EXPECT_EQ(Ok(exported()).tensors.size(), bytes);
}

TEST_F(AdapterApiTest, AnAdapterChangesTheModelForItsPasses) {
  const std::vector<float> plain = Logits({});
  const uint32_t adapter = Create("a");
  EXPECT_EQ(Logits(adapter), plain);  // the adapter has no weights yet
  Ok(LoadWeights(adapter, Weights(1)));
  const std::vector<float> changed = Logits(adapter);
  EXPECT_NE(changed, plain);
  EXPECT_EQ(Logits({}), plain);
  Ok(LoadWeights(adapter, Weights(2)));
  EXPECT_NE(Logits(adapter), changed);
  Ok(LoadWeights(adapter, Weights(1)));
  EXPECT_EQ(Logits(adapter), changed);
}

TEST_F(AdapterApiTest, NamesAreFoundAgainUntilTheyAreDestroyed) {
  const uint32_t adapter = Create("a");
  Ok(LoadWeights(adapter, Weights(1)));
  const auto again =
      Waited([&](Wait& wait) { return AdapterCreate(*process_, model_, "a", wait); });
  EXPECT_NE(ErrorOf(again).find("already"), std::string::npos);
  const auto opened = Open("a");
  ASSERT_TRUE(opened);
  EXPECT_EQ(Logits(*opened), Logits(adapter));
  EXPECT_FALSE(Open("b"));
  Ok(Waited([&](Wait& wait) { return AdapterDestroy(*process_, adapter, wait); }));
  EXPECT_FALSE(Open("a"));
  // Both handles name the same adapter.
  const uint32_t pass = NewPass();
  Ok(ForwardPassAdapter(*process_, pass, *opened));
  EXPECT_NE(ErrorOf(ForwardPassExecute(*process_, pass)).find("destroyed"), std::string::npos);
  EXPECT_NE(ErrorOf(Initialize(*opened)).find("destroyed"), std::string::npos);
  EXPECT_FALSE(Waited([&](Wait& wait) { return AdapterCreate(*process_, model_, "", wait); }));
}

TEST_F(AdapterApiTest, PassesUnderWayFinishWithAnAdapterThatIsDestroyed) {
  const uint32_t adapter = Create("a");
  Ok(LoadWeights(adapter, Weights(1)));
  const std::vector<float> before = Logits(adapter);
  const auto destroy = [&] {
    Ok(Waited([&](Wait& wait) { return AdapterDestroy(*process_, adapter, wait); }));
  };
  EXPECT_EQ(Logits(adapter, {}, destroy), before);
  EXPECT_FALSE(Open("a"));
}

TEST_F(AdapterApiTest, AForkIsACopy) {
  const uint32_t adapter = Create("a");
  Ok(LoadWeights(adapter, Weights(1)));
  const uint32_t fork =
      Ok(Waited([&](Wait& wait) { return AdapterFork(*process_, adapter, "b", wait); }));
  const std::vector<float> before = Logits(fork);
  EXPECT_EQ(before, Logits(adapter));
  Ok(LoadWeights(adapter, Weights(2)));
  EXPECT_EQ(Logits(fork), before);
  EXPECT_NE(Logits(adapter), before);
}

TEST_F(AdapterApiTest, UsersDoNotSeeEachOthersAdapters) {
  Create("a");
  auto other =
      std::make_shared<Process>(engine_.get(), InstanceId{2}, Process::Options{.username = "eve"});
  const uint32_t model = Ok(ModelLoad(*other, "default"));
  EXPECT_FALSE(Ok(Waited([&](Wait& wait) { return AdapterOpen(*other, model, "a", wait); })));
  other->OnExit({});
}

TEST_F(AdapterApiTest, SeedsPerturbAnAdapterThatIsTuned) {
  const uint32_t adapter = Create("a");
  Ok(Initialize(adapter));
  const std::vector<float> plain = Logits(adapter);
  EXPECT_EQ(plain, Logits({}));  // B is 0
  EXPECT_EQ(Logits(adapter, 0), plain);
  EXPECT_NE(Logits(adapter, 5), plain);
  EXPECT_EQ(Logits(adapter, 5), Logits(adapter, 5));
  EXPECT_NE(Logits(adapter, 5), Logits(adapter, -5));
  Ok(Update(adapter, {1, 0}, {5, -5}));
  EXPECT_NE(Logits(adapter), plain);
  const uint32_t still = Create("b");
  Ok(Initialize(still, 2, 0));
  EXPECT_EQ(Logits(still, 5), plain);
}

TEST_F(AdapterApiTest, MistakesAreErrors) {
  const uint32_t adapter = Create("a");
  const auto error_of_pass = [&](bool with_adapter) {
    const uint32_t pass = NewPass();
    if (with_adapter) Ok(ForwardPassAdapter(*process_, pass, adapter));
    Ok(ZoAdapterSeed(*process_, pass, 7));
    return ErrorOf(ForwardPassExecute(*process_, pass));
  };
  EXPECT_NE(error_of_pass(false).find("no adapter"), std::string::npos);
  EXPECT_NE(error_of_pass(true).find("zo.initialize"), std::string::npos);
  EXPECT_NE(ErrorOf(Update(adapter, {1, 2}, {1, 2})).find("zo.initialize"), std::string::npos);
  Ok(Initialize(adapter));
  EXPECT_NE(ErrorOf(Update(adapter, {1}, {1, 2})).find("1 scores for 2 seeds"), std::string::npos);
  EXPECT_NE(ErrorOf(Update(adapter, {1}, {1})).find("population_size"), std::string::npos);
  EXPECT_NE(ErrorOf(Initialize(adapter, 3)).find("rank"), std::string::npos);
  EXPECT_NE(ErrorOf(Initialize(adapter, 0)).find("rank"), std::string::npos);
  AdapterShape other = DummyAdapterShape();
  other.targets[0].in = 12;
  const PeftFiles files = *WritePeft(*MakeAdapter(other, 2, 4), other);
  const std::vector<float> before = Logits(adapter, 3);
  const auto handle = process_->handles().adapters.Get(adapter);
  const auto loaded = engine_->adapters().Load((*handle)->adapter(), files.config,
                                               std::as_bytes(std::span(files.tensors)));
  EXPECT_NE(ErrorOf(loaded).find("q_proj"), std::string::npos) << ErrorOf(loaded);
  EXPECT_EQ(Logits(adapter, 3), before);  // a failed load changes nothing
}

TEST_F(AdapterApiTest, AContextUnderAnAdapterIsSavedInMemory) {
  RunUnder(Create("a"));
  Ok(Waited([&](Wait& wait) { return ContextSave(*process_, context_, "saved", wait); }));
  Ok(engine_->snapshots().Delete("local", 0, "saved"));
}

class AdapterSnapshotTest : public AdapterApiTest {
 protected:
  AdapterSnapshotTest()
      : AdapterApiTest(Setup{.snapshot_root = TestFolder(),
                             .scheduler = {.prefix = {.share = false}, .check_integrity = true}}) {}
  auto Save(uint32_t context) {
    return Waited([&](Wait& wait) { return ContextSave(*process_, context, "saved", wait); });
  }
  auto OpenSaved() {
    return Waited([&](Wait& wait) { return ContextOpen(*process_, model_, "saved", wait); });
  }
  // The logits after one more token, under an adapter.
  std::vector<float> LogitsBehind(uint32_t context, uint32_t adapter) {
    const uint32_t pass = Ok(ForwardPassNew(*process_, model_));
    Ok(ForwardPassContext(*process_, pass, context));
    Ok(Input(pass, {'f'}, {5}));
    Sample(pass, pie_bridge::SamplerKind::Logits, 1, {0});
    Ok(ForwardPassAdapter(*process_, pass, adapter));
    const uint32_t future = Ok(ForwardPassExecute(*process_, pass));
    std::optional<InferenceOutput> output;
    while (!output) output = Ok(FutureOutputGet(*process_, future));
    return std::get<LogitsSlot>(output->slots.at(0)).logits;
  }
};

TEST_F(AdapterSnapshotTest, AContextUnderAnAdapterIsSavedToAFile) {
  const uint32_t adapter = Create("a");
  RunUnder(adapter);
  Ok(Save(context_));
  const uint32_t opened = Ok(OpenSaved());
  const std::vector<float> expected = LogitsBehind(context_, adapter);
  EXPECT_EQ(LogitsBehind(opened, adapter), expected);
  // Without its pages, the context is computed again under the adapter.
  Ok(ContextTruncateWorkingPageTokens(*process_, opened, 1));
  Ok(ContextSuspend(*process_, opened));
  EXPECT_EQ(LogitsBehind(opened, adapter), expected);
  // A context that was opened and not used yet can be saved again.
  const uint32_t unused = Ok(OpenSaved());
  Ok(Save(unused));
  EXPECT_EQ(LogitsBehind(Ok(OpenSaved()), adapter), expected);
}

TEST_F(AdapterSnapshotTest, ASnapshotOpensOnlyWithTheSameWeights) {
  const uint32_t adapter = Create("a");
  RunUnder(adapter);
  Ok(Save(context_));
  Ok(LoadWeights(adapter, Weights(2)));
  EXPECT_NE(ErrorOf(OpenSaved()).find("other weights of adapter 'a'"), std::string::npos);
  const auto late = Save(context_);
  EXPECT_NE(ErrorOf(late).find("does not have any more"), std::string::npos) << ErrorOf(late);
  Ok(LoadWeights(adapter, Weights(1)));  // another version of the same weights
  EXPECT_TRUE(OpenSaved());
  Ok(Save(context_));
  Ok(Waited([&](Wait& wait) { return AdapterDestroy(*process_, adapter, wait); }));
  const auto opened = OpenSaved();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kNotFound);
  EXPECT_NE(ErrorOf(opened).find("adapter 'a'"), std::string::npos) << ErrorOf(opened);
}

TEST_F(AdapterSnapshotTest, AForkOfTheAdapterKeepsItsWeights) {
  const uint32_t adapter = Create("a");
  RunUnder(adapter);
  Ok(Waited([&](Wait& wait) { return AdapterFork(*process_, adapter, "b", wait); }));
  Ok(LoadWeights(adapter, Weights(2)));
  Ok(Save(context_));
  EXPECT_TRUE(OpenSaved());
}

// Adapters in files.
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

TEST(GuestFilesTest, PathsStayInTheirFolders) {
  const std::string root = TestFolder();
  fs::create_directories(root + "/scratch/sub");
  fs::create_directories(root + "/data");
  std::ofstream(root + "/secret") << "secret";
  std::ofstream(root + "/scratch/sub/file") << "mine";
  fs::create_symlink(root, root + "/scratch/up");
  fs::create_symlink(root + "/secret", root + "/scratch/sub/link");
  mkfifo((root + "/scratch/sub/pipe").c_str(), 0600);
  const GuestFiles files({root + "/scratch", 100'000}, {root + "/data", 100'000});
  Charge charge(std::make_shared<ByteBudget>(1'000));
  EXPECT_EQ(*files.Read("/scratch/sub", "file", 100, charge), "mine");
  EXPECT_EQ(*files.Read("/scratch//./sub/", "file", 100, charge), "mine");
  EXPECT_FALSE(files.Read("/scratch/sub", "file", 3, charge));
  EXPECT_FALSE(files.Read("/scratch/sub", "link", 100, charge));
  EXPECT_FALSE(files.Read("/scratch/sub", "pipe", 100, charge));
  EXPECT_FALSE(files.Read("/scratch/up", "secret", 100, charge));
  for (const std::string_view path : {"/scratch/..", "/scratch/../", "/scratch/sub/../..", "..", "",
                                      "/", "/etc", "scratch/sub", "/scratchy", "/data/../secret"}) {
    EXPECT_FALSE(files.Read(path, "secret", 100, charge)) << path;
    EXPECT_FALSE(files.Write(path, {{"x", "y"}})) << path;
  }
  EXPECT_FALSE(files.Write("/scratch/up", {{"x", "y"}}));
  ASSERT_TRUE(files.Write("/data/new", {{"x", "first"}, {"y", "other"}}));
  ASSERT_TRUE(files.Write("/data/new", {{"x", "second"}}));
  EXPECT_EQ(*files.Read("/data/new", "x", 100, charge), "second");
  EXPECT_FALSE(files.Write("/data/new", {{"x", std::string(200'000, 'a')}}));
  // A file of holes takes no room on the disk, but the memory that it is read into is charged.
  std::ofstream(root + "/data/holes") << "";
  fs::resize_file(root + "/data/holes", 1'001);
  EXPECT_FALSE(files.Read("/data", "holes", 2'000, charge));
  const GuestFiles none({}, {});
  EXPECT_FALSE(none.Read("/scratch/sub", "file", 100, charge));
  fs::remove_all(root);
}

}  // namespace
}  // namespace pie::host
