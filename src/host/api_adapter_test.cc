// Adapters as guests use them, on the dummy device.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/adapter_testing.h"
#include "host/api_testing.h"
#include "model/adapter/peft.h"

namespace pie::host {
namespace {

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

}  // namespace
}  // namespace pie::host
