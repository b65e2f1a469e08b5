// Adapters on the whole CPU device, against a plain recomputation.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/sequence_testing.h"
#include "backend/cpu/testing.h"
#include "backend/cpu/tiny_llama.h"
#include "model/adapter/zo_testing.h"

namespace pie::cpu {
namespace {

std::unique_ptr<Backend> Open(const TinyLlama& model, CpuLevel level, uint32_t threads = 2) {
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "." + test->name() + ".gguf";
  std::ranges::replace(name, '/', '-');
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << model.Bytes();
  auto backend = MakeCpuBackend(path, {.total_pages = 512, .threads = threads, .level = level});
  std::filesystem::remove(path);
  EXPECT_TRUE(backend) << (backend ? "" : backend.error().text);
  return std::move(*backend);
}

AdapterWeights Random(const AdapterShape& shape, uint32_t rank, uint64_t seed) {
  AdapterWeights weights = EmptyAdapter(shape);
  for (uint32_t layer = 0; layer <= shape.layers; ++layer) {
    for (uint32_t slot = 0; slot < shape.slots(layer); ++slot) {
      const auto [in, out] = shape.Of(shape.TargetAt(layer, slot));
      const float width = layer == shape.layers && slot == 0 ? 1 : std::sqrt(3.0F / in);
      weights.layers[layer][slot] = {.rank = rank,
                                     .alpha = static_cast<float>(rank),
                                     .scale = 1,
                                     .a = RandomFloats(size_t{rank} * in, ++seed, width),
                                     .b = RandomFloats(size_t{rank} * out, ++seed, 0.2F)};
    }
  }
  return weights;
}

double Difference(const Rows& got, const std::vector<std::vector<double>>& expected) {
  double squares = 0;
  double error = 0;
  for (size_t row = 0; row < got.size(); ++row) {
    for (size_t i = 0; i < got[row].size(); ++i) {
      squares += expected[row][i] * expected[row][i];
      error += (got[row][i] - expected[row][i]) * (got[row][i] - expected[row][i]);
    }
  }
  return std::sqrt(error / squares);
}

class CpuAdapterTest : public AtLevel {
 protected:
  Sequence With(const DeviceAdapterPtr& adapter, uint64_t seed = 1, int64_t zo_seed = 0,
                float zo_sigma = 0) {
    Sequence sequence(40, seed, TinyLlama::kVocab);
    sequence.adapter = adapter.get();
    sequence.zo_seed = zo_seed;
    sequence.zo_sigma = zo_sigma;
    return sequence;
  }
};

TEST_P(CpuAdapterTest, LogitsAreThoseOfTheChangedWeights) {
  for (const DType type : {DType::kF32, DType::kQ8_0, DType::kQ4_1}) {
    TinyLlama model(type, type, true);
    const auto device = Open(model, GetParam());
    const AdapterWeights weights = Random(device->info().adapters, 5, 1);
    const DeviceAdapterPtr adapter = *device->LoadAdapter(weights);
    const Sequence sequence = With(adapter);
    const Rows got = AllLogits(*device, {sequence}, 1000)[0];
    const auto plain = model.Logits(sequence.tokens, sequence.positions, {}, true);
    model.SetAdapter(&weights);
    const auto expected = model.Logits(sequence.tokens, sequence.positions, {}, true);
    // The adapter changes the logits by much more than rounding does.
    EXPECT_GT(Difference(got, plain), 0.2);
    EXPECT_LT(Difference(got, expected), type == DType::kF32 ? 0.002 : 0.04) << NameOf(type);
  }
}

TEST_P(CpuAdapterTest, EitherEndMayBeChangedAlone) {
  for (const bool tied : {true, false}) {
    TinyLlama model(DType::kQ8_0, DType::kF32, tied);
    const auto device = Open(model, GetParam());
    const AdapterShape& shape = device->info().adapters;
    for (const AdapterTarget target : {AdapterTarget::kEmbedding, AdapterTarget::kHead}) {
      const AdapterWeights all = Random(shape, 5, 1);
      AdapterWeights weights = EmptyAdapter(shape);
      weights.layers.back()[AdapterSlot(target)] = all.layers.back()[AdapterSlot(target)];
      const DeviceAdapterPtr adapter = *device->LoadAdapter(weights);
      const Sequence sequence = With(adapter);
      const Rows got = AllLogits(*device, {sequence}, 7)[0];
      const auto plain = model.Logits(sequence.tokens, sequence.positions, {}, true);
      model.SetAdapter(&weights);
      const auto expected = model.Logits(sequence.tokens, sequence.positions, {}, true);
      model.SetAdapter(nullptr);
      EXPECT_GT(Difference(got, plain), 0.1) << NameOf(target);
      EXPECT_LT(Difference(got, expected), 0.03) << NameOf(target);
    }
  }
}

TEST_P(CpuAdapterTest, AnAdapterThatChangesNothingGivesTheModelsLogits) {
  const TinyLlama model(DType::kQ8_0, DType::kQ8_0, true);
  const auto device = Open(model, GetParam());
  const DeviceAdapterPtr zero = *device->LoadAdapter(*MakeAdapter(device->info().adapters, 4, 8));
  const DeviceAdapterPtr none = *device->LoadAdapter({});
  const Rows plain = AllLogits(*device, {With(nullptr)}, 1000)[0];
  EXPECT_EQ(AllLogits(*device, {With(zero)}, 1000)[0], plain);
  EXPECT_EQ(AllLogits(*device, {With(none)}, 1000)[0], plain);
}

TEST_P(CpuAdapterTest, RowsAreTheSameInEveryBatch) {
  const TinyLlama model(DType::kQ8_0, DType::kF32, false);
  const auto device = Open(model, GetParam());
  const auto other_threads = Open(model, GetParam(), 1);
  const DeviceAdapterPtr first = *device->LoadAdapter(Random(device->info().adapters, 5, 1));
  const DeviceAdapterPtr second = *device->LoadAdapter(Random(device->info().adapters, 16, 100));
  std::vector<Sequence> sequences = {
      With(first, 1),           With(nullptr, 2),          With(second, 3), With(first, 4),
      With(first, 5, 77, 0.1F), With(first, 5, -77, 0.1F), With(second, 6), With(first, 7)};
  sequences[3].read = {39};
  const auto together = AllLogits(*device, sequences, 1000);
  EXPECT_EQ(AllLogits(*device, sequences, 1), together);
  EXPECT_EQ(AllLogits(*other_threads, sequences, 7), together);
  for (size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_EQ(AllLogits(*device, {sequences[i]}, 3)[0], together[i]) << i;
  }
  EXPECT_NE(together[4], together[5]);
}

TEST_P(CpuAdapterTest, NoiseIsThatOfItsSeed) {
  TinyLlama model(DType::kF32, DType::kF32, true);
  const auto device = Open(model, GetParam());
  AdapterWeights weights = Random(device->info().adapters, 5, 1);
  const DeviceAdapterPtr adapter = *device->LoadAdapter(weights);
  const Rows plain = AllLogits(*device, {With(adapter)}, 1000)[0];
  EXPECT_EQ(AllLogits(*device, {With(adapter, 1, 9, 0)}, 1000)[0], plain);
  EXPECT_EQ(AllLogits(*device, {With(adapter, 1, 0, 0.3F)}, 1000)[0], plain);

  const int64_t seed = -1234567890123;
  const float sigma = 0.05F;
  const Sequence sequence = With(adapter, 1, seed, sigma);
  const Rows noisy = AllLogits(*device, {sequence}, 1000)[0];
  WriteNoise(weights, seed, sigma);
  model.SetAdapter(&weights);
  const auto expected = model.Logits(sequence.tokens, sequence.positions, {}, true);
  EXPECT_GT(Difference(plain, expected), 0.05);
  EXPECT_LT(Difference(noisy, expected), 0.002);
}

PIE_TEST_AT_ALL_LEVELS(CpuAdapterTest);

}  // namespace
}  // namespace pie::cpu
