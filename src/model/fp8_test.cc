#include "model/fp8.h"

#include <gtest/gtest.h>

#include "model/checked_tensors.h"
#include "model/fp8_testing.h"

namespace pie {
namespace {

TEST(Fp8Test, NumbersAreThoseOfTheFormat) {
  for (int bits = 0; bits < 256; ++bits) {
    const float number = E4m3ToFloat(static_cast<uint8_t>(bits));
    if ((bits & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(number));
      continue;
    }
    const int exponent = bits >> 3 & 15;
    const double fraction = (bits & 7) / 8.0;
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -6) : std::ldexp(1 + fraction, exponent - 7);
    EXPECT_EQ(number, bits < 128 ? magnitude : -magnitude) << bits;
    EXPECT_EQ(FloatToE4m3(number), bits) << number;
  }
}

// Between two neighbours, the nearer one, and at the middle the even one.
TEST(Fp8Test, RoundsToTheNearest) {
  for (int bits = 0; bits < 0x7E; ++bits) {
    const float low = E4m3ToFloat(static_cast<uint8_t>(bits));
    const float high = E4m3ToFloat(static_cast<uint8_t>(bits + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(FloatToE4m3(middle), bits + bits % 2) << middle;
    EXPECT_EQ(FloatToE4m3(-middle), 128 + bits + bits % 2) << middle;
    EXPECT_EQ(FloatToE4m3(std::nextafter(middle, 0.0F)), bits) << middle;
    EXPECT_EQ(FloatToE4m3(std::nextafter(middle, 1e9F)), bits + 1) << middle;
  }
  EXPECT_EQ(E4m3ToFloat(FloatToE4m3(1e6F)), 448);
  EXPECT_EQ(E4m3ToFloat(FloatToE4m3(-INFINITY)), -448);
  EXPECT_TRUE(std::isnan(E4m3ToFloat(FloatToE4m3(NAN))));
}

const std::filesystem::path kLlama =
    std::filesystem::path(__FILE__).parent_path() / "../../tests/golden/models/llama";

TEST(Fp8Test, CheckpointsAreUnpackedToTheSameWeights) {
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  for (const Fp8Form& form : kFp8Forms) {
    const Fp8Model model(kLlama, form);
    const auto stored = ModelFiles::Open(model.stored());
    ASSERT_TRUE(stored) << form.name << ": " << stored.error().text;
    EXPECT_TRUE(stored->config().fp8.used);
    const auto plain = ModelFiles::Open(model.plain());
    ASSERT_TRUE(plain) << plain.error().text;
    const Tensor& expected = *plain->tensors().Find(name);
    uint64_t done = 0;
    const CheckedTensors::Progress progress = [&](uint64_t now, uint64_t) { done = now; };
    CheckedTensors tensors(*stored, progress);
    const auto found = tensors.Find(name, expected.shape);
    ASSERT_TRUE(found) << form.name << ": " << found.error().text;
    EXPECT_EQ((*found)->dtype, DType::kBF16);
    EXPECT_TRUE(std::ranges::equal((*found)->data, expected.data)) << form.name;
    EXPECT_EQ(*tensors.Find(name, expected.shape), *found) << "unpacked once";
    const auto as_stored = tensors.FindStored(name, expected.shape);
    ASSERT_TRUE(as_stored);
    EXPECT_EQ((*as_stored)->dtype, DType::kF8E4M3);
    tensors.Done((*found)->data);
    EXPECT_EQ(done, expected.elements());
    for (const Tensor* const unused : tensors.Unused("model.layers.0.mlp.down_proj")) {
      ADD_FAILURE() << unused->name << " counts as unused";
    }
    EXPECT_FALSE(tensors.Unused("model.layers.0.mlp.up_proj").empty());
  }
}

TEST(Fp8Test, ScalesThatAreMissingOrDoNotFitAreRefused) {
  const auto error = [](const ModelFiles& files) {
    const std::string name = "model.layers.0.mlp.down_proj.weight";
    CheckedTensors tensors(files, {});
    const auto found = tensors.Find(name, files.tensors().Find(name)->shape);
    return found ? "it was read" : found.error().text;
  };
  const Fp8Form absent{"absent", "_elsewhere", 0, 0};
  const Fp8Model without(kLlama, absent);
  const std::string missing = error(*ModelFiles::Open(without.stored()));
  EXPECT_NE(missing.find("no tensor model.layers.0.mlp.down_proj.weight_scale_inv"),
            std::string::npos)
      << missing;
  // Blocks of another size than the configuration says.
  const Fp8Model blocks(kLlama, kFp8Forms[1]);
  const auto path = blocks.stored() / "config.json";
  nlohmann::json config = nlohmann::json::parse(std::ifstream(path));
  config["quantization_config"]["weight_block_size"] = {128, 128};
  std::ofstream(path) << config;
  const std::string shape = error(*ModelFiles::Open(blocks.stored()));
  EXPECT_NE(shape.find("nor its blocks of 128 × 128"), std::string::npos) << shape;
}

}  // namespace
}  // namespace pie
