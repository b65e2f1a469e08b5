#include "model/adapter/peft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/adapter/module_pattern.h"

namespace pie {
namespace {

using nlohmann::json;

// Two layers of hidden size 6, two heads of 4, one KV head, a feed-forward width of 10.
AdapterShape SmallShape(bool fused = false) {
  return {.layers = 2,
          .targets = {{{6, 8}, {6, 4}, {6, 4}, {8, 6}, {6, 10}, {6, 10}, {10, 6}}},
          .fused = fused};
}

AdapterWeights Random(const AdapterShape& shape, uint32_t rank, float alpha) {
  AdapterWeights weights = *MakeAdapter(shape, rank, alpha);
  float next = 0;
  for (auto& layer : weights.layers) {
    for (LowRank& part : layer) {
      for (float& number : part.b) number = std::sin(next += 0.7F);
    }
  }
  return weights;
}

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The product that the adapter adds to one matrix.
std::vector<float> ProductOf(const LowRank& part, const AdapterShape::Matrix& matrix) {
  std::vector<float> product(size_t{matrix.in} * matrix.out);
  for (size_t i = 0; i < matrix.out; ++i) {
    for (size_t j = 0; j < matrix.in; ++j) {
      for (size_t k = 0; k < part.rank; ++k) {
        product[i * matrix.in + j] +=
            part.scale * part.b[i * part.rank + k] * part.a[k * matrix.in + j];
      }
    }
  }
  return product;
}

void ExpectSameProducts(const AdapterWeights& a, const AdapterWeights& b,
                        const AdapterShape& shape) {
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (size_t layer = 0; layer < a.layers.size(); ++layer) {
    for (size_t target = 0; target < kAdapterTargets; ++target) {
      const auto left = ProductOf(a.layers[layer][target], shape.targets[target]);
      const auto right = ProductOf(b.layers[layer][target], shape.targets[target]);
      for (size_t i = 0; i < left.size(); ++i) EXPECT_NEAR(left[i], right[i], 1e-5F);
    }
  }
}

std::string ErrorOf(const Result<AdapterWeights>& read) {
  return read ? "" : read.error().text;
}

// Writes an adapter, lets `change` edit the two parts, and reads it.
std::string ErrorAfter(
    const std::function<void(json& config, json& header, std::string& data)>& change) {
  const AdapterShape shape = SmallShape();
  PeftFiles files = *WritePeft(Random(shape, 2, 4), shape);
  uint64_t length = 0;
  std::memcpy(&length, files.tensors.data(), sizeof(length));
  json config = json::parse(files.config);
  json header = json::parse(files.tensors.substr(8, length));
  std::string data = files.tensors.substr(8 + length);
  change(config, header, data);
  const std::string text = header.dump();
  length = text.size();
  std::string tensors(reinterpret_cast<const char*>(&length), sizeof(length));
  tensors += text + data;
  return ErrorOf(ReadPeft(config.dump(), Bytes(tensors), shape));
}

constexpr const char* kA = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight";
constexpr const char* kB = "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight";

TEST(Peft, WrittenAdaptersAreReadBack) {
  const AdapterShape shape = SmallShape();
  AdapterWeights weights = Random(shape, 2, 4);
  weights.layers[1][0] = {};                   // one matrix is left alone
  LowRank& other = weights.layers[0][6] = {};  // one has another rank and alpha
  other = {.rank = 3, .alpha = 9, .scale = 3};
  other.a.assign(30, 0.5F);
  other.b.assign(18, 0.25F);
  const PeftFiles files = *WritePeft(weights, shape, {{"made", "here"}});
  const auto read = ReadPeft(files.config, Bytes(files.tensors), shape);
  ASSERT_TRUE(read) << ErrorOf(read);
  for (size_t layer = 0; layer < 2; ++layer) {
    for (size_t target = 0; target < kAdapterTargets; ++target) {
      const LowRank& left = weights.layers[layer][target];
      const LowRank& right = read->layers[layer][target];
      EXPECT_EQ(left.rank, right.rank);
      EXPECT_EQ(left.scale, right.scale);
      EXPECT_EQ(left.a, right.a);
      EXPECT_EQ(left.b, right.b);
    }
  }
}

TEST(Peft, RsLoraDividesByTheRoot) {
  const AdapterShape shape = SmallShape();
  PeftFiles files = *WritePeft(Random(shape, 4, 8), shape);
  json config = json::parse(files.config);
  config["use_rslora"] = true;
  const auto read = ReadPeft(config.dump(), Bytes(files.tensors), shape);
  ASSERT_TRUE(read) << ErrorOf(read);
  EXPECT_EQ(read->layers[0][0].scale, 4);
}

TEST(Peft, FusedModelsHaveOneMatrixForSeveralTargets) {
  const AdapterShape shape = SmallShape(true);
  AdapterWeights weights = Random(shape, 2, 4);  // each target has an A of its own
  const PeftFiles files = *WritePeft(weights, shape);
  EXPECT_NE(files.config.find("qkv_proj"), files.config.npos);
  const auto read = ReadPeft(files.config, Bytes(files.tensors), shape);
  ASSERT_TRUE(read) << ErrorOf(read);
  ExpectSameProducts(weights, *read, shape);
  // Once read, q, k and v share their A, and the rank stays what it is.
  const PeftFiles again = *WritePeft(*read, shape);
  const auto twice = ReadPeft(again.config, Bytes(again.tensors), shape);
  ASSERT_TRUE(twice) << ErrorOf(twice);
  EXPECT_EQ(twice->max_rank(), read->max_rank());
  ExpectSameProducts(weights, *twice, shape);
}

TEST(Peft, TargetsMayBeAPattern) {
  EXPECT_EQ(ErrorAfter([](json& config, json&, std::string&) {
              config["target_modules"] = R"(.*\.(q|k|v|o|gate|up|down)_proj)";
            }),
            "");
  EXPECT_EQ(ErrorAfter(
                [](json& config, json&, std::string&) { config["target_modules"] = "all-linear"; }),
            "");
  const std::string error = ErrorAfter([](json& config, json&, std::string&) {
    config["target_modules"] = R"(.*\.(k|v|o|gate|up|down)_proj)";
  });
  EXPECT_NE(error.find("q_proj"), error.npos) << error;
  EXPECT_NE(error.find("target_modules"), error.npos) << error;
}

TEST(Peft, PatternsGiveAlphas) {
  const AdapterShape shape = SmallShape();
  PeftFiles files = *WritePeft(Random(shape, 2, 4), shape);
  json config = json::parse(files.config);
  config["alpha_pattern"] = {{"layers.1.self_attn.q_proj", 10}, {R"(.*\.0\..*down_proj)", 6}};
  const auto read = ReadPeft(config.dump(), Bytes(files.tensors), shape);
  ASSERT_TRUE(read) << ErrorOf(read);
  EXPECT_EQ(read->layers[1][0].scale, 5);
  EXPECT_EQ(read->layers[0][6].scale, 3);
  EXPECT_EQ(read->layers[0][0].scale, 2);
}

TEST(Peft, UnsupportedFeaturesAreRefusedByName) {
  const std::vector<std::pair<std::string, json>> refused = {
      {"use_dora", true},  {"modules_to_save", {"lm_head"}}, {"bias", "all"},
      {"lora_bias", true}, {"init_lora_weights", "pissa"},   {"peft_type", "IA3"}};
  for (const auto& [field, value] : refused) {
    const std::string error =
        ErrorAfter([&](json& config, json&, std::string&) { config[field] = value; });
    EXPECT_NE(error.find(field), error.npos) << field << ": " << error;
  }
}

TEST(Peft, ErrorsNameTheTensor) {
  const std::vector<std::pair<const char*, std::function<void(json&, json&, std::string&)>>>
      faults = {
          {kA, [](json&, json& header, std::string&) { header[kA]["shape"] = {6, 2}; }},
          {kB, [](json&, json& header, std::string&) { header[kB]["shape"] = {2, 8}; }},
          {kA, [](json&, json& header, std::string&) { header[kA]["dtype"] = "I32"; }},
          {kB,
           [](json&, json& header, std::string&) {
             header["base_model.model.model.layers.1.self_attn.z_proj.lora_B.weight"] = header[kB];
             header.erase(kB);
           }},
          {"layers.7",
           [](json&, json& header, std::string&) {
             header["base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight"] = header[kA];
             header.erase(kA);
           }},
          {"lm_head",
           [](json&, json& header, std::string&) {
             header["base_model.model.lm_head.lora_A.weight"] = header[kA];
             header.erase(kA);
           }},
          {kA, [](json& config, json&, std::string&) { config["r"] = 3; }},
          {kA,
           [](json&, json& header, std::string& data) {
             const float nan = std::numeric_limits<float>::quiet_NaN();
             std::memcpy(&data[header[kA]["data_offsets"][0].get<size_t>() + 4], &nan, 4);
           }},
          {kB, [](json&, json& header, std::string& data) {
             const float infinity = std::numeric_limits<float>::infinity();
             std::memcpy(&data[header[kB]["data_offsets"][0].get<size_t>() + 4], &infinity, 4);
           }}};
  for (const auto& [name, change] : faults) {
    const std::string error = ErrorAfter(change);
    const std::string shown = std::string(name).substr(0, 40);
    EXPECT_FALSE(error.empty()) << name;
    if (std::string_view(name) != kA) {
      EXPECT_NE(error.find(shown), error.npos) << error;
    } else {
      EXPECT_NE(error.find("tensor 'base_model"), error.npos) << error;
    }
  }
}

TEST(Peft, EveryTruncationIsRefused) {
  const AdapterShape shape = SmallShape();
  const PeftFiles files = *WritePeft(Random(shape, 1, 1), shape);
  for (size_t size = 0; size < files.tensors.size(); size += 7) {
    EXPECT_FALSE(ReadPeft(files.config, Bytes(files.tensors).first(size), shape)) << size;
  }
  for (size_t size = 0; size + 2 < files.config.size(); size += 7) {
    EXPECT_FALSE(ReadPeft(files.config.substr(0, size), Bytes(files.tensors), shape)) << size;
  }
}

TEST(Peft, AnEmptyAdapterCannotBeWritten) {
  EXPECT_FALSE(WritePeft({}, SmallShape()));
}

TEST(Peft, AdaptersOfOtherModelsDoNotFit) {
  const AdapterShape shape = SmallShape();
  AdapterShape other = shape;
  other.targets[6].in = 12;
  const AdapterWeights weights = Random(shape, 2, 4);
  EXPECT_TRUE(CheckFits(weights, shape));
  EXPECT_FALSE(CheckFits(weights, other));
}

bool Matches(std::string_view pattern, std::string_view name) {
  const auto compiled = ModulePattern::Compile(pattern);
  EXPECT_TRUE(compiled) << pattern << ": " << (compiled ? "" : compiled.error().text);
  return compiled && compiled->MatchesAll(name);
}

TEST(ModulePattern, FollowsTheSyntaxOfPython) {
  EXPECT_TRUE(Matches(R"(model\.layers\.\d+\.mlp\.(up|down)_proj)", "model.layers.12.mlp.up_proj"));
  EXPECT_FALSE(Matches(R"(model\.layers\.\d\.mlp\.(up|down)_proj)", "model.layers.12.mlp.up_proj"));
  EXPECT_TRUE(Matches("a{2,3}b?", "aaa"));
  EXPECT_FALSE(Matches("a{2,3}b?", "aaaa"));
  EXPECT_TRUE(Matches("a{2,}", "aaaa"));
  EXPECT_TRUE(Matches("[^.]*_proj", "q_proj"));
  EXPECT_FALSE(Matches("[^.]*_proj", "x.q_proj"));
  EXPECT_TRUE(Matches("(a*)*b", "aaaab"));
  EXPECT_TRUE(ModulePattern::Compile("q_proj")->MatchesEnd("layers.1.q_proj"));
  EXPECT_FALSE(ModulePattern::Compile("proj")->MatchesEnd("layers.1.q_proj"));
}

TEST(ModulePattern, RefusesWhatIsMalformedOrTooLong) {
  for (const std::string_view pattern :
       {"(", ")", "[a", "*a", "a{", "a{3,2}", "\\", "(?=a)", "\\b"}) {
    EXPECT_FALSE(ModulePattern::Compile(pattern)) << pattern;
  }
  EXPECT_FALSE(ModulePattern::Compile(std::string(2'000, 'a')));
  EXPECT_FALSE(ModulePattern::Compile("((a{999}){999}){999}"));
  EXPECT_FALSE(ModulePattern::Compile(std::string(100, '(') + std::string(100, ')')));
}

TEST(ModulePattern, CostsLittleWhateverTheExpression) {
  const auto hard = ModulePattern::Compile("(a|a)*(a|a)*(a|a)*(a|a)*(a|a)*b");
  ASSERT_TRUE(hard);
  EXPECT_FALSE(hard->MatchesAll(std::string(2'000, 'a')));
}

}  // namespace
}  // namespace pie
