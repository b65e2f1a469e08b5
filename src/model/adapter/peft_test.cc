#include "model/adapter/peft.h"

#include <gtest/gtest.h>

#include <array>
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

// The same with three experts, a vocabulary of 7, an embedding and a head.
AdapterShape SmallMixture(bool interleaved = false) {
  AdapterShape shape = SmallShape();
  shape.experts = 3;
  shape.embedding = {7, 6};
  shape.head = {6, 7};
  shape.interleaved = interleaved;
  return shape;
}

AdapterWeights RandomEverywhere(const AdapterShape& shape, uint32_t rank, float alpha) {
  AdapterWeights weights = EmptyAdapter(shape);
  float next = 0;
  for (uint32_t layer = 0; layer <= shape.layers; ++layer) {
    for (uint32_t slot = 0; slot < shape.slots(layer); ++slot) {
      const auto [in, out] = shape.Of(shape.TargetAt(layer, slot));
      LowRank& part = weights.layers[layer][slot];
      part = {.rank = rank, .alpha = alpha, .scale = AdapterScale(alpha, rank, false)};
      part.a.resize(size_t{rank} * in);
      part.b.resize(size_t{rank} * out);
      for (float& number : part.a) number = std::cos(next += 0.7F);
      for (float& number : part.b) number = std::sin(next += 0.7F);
    }
  }
  return weights;
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
    for (uint32_t slot = 0; slot < a.layers[layer].size(); ++slot) {
      const auto& matrix = shape.Of(shape.TargetAt(static_cast<uint32_t>(layer), slot));
      const auto left = ProductOf(a.layers[layer][slot], matrix);
      const auto right = ProductOf(b.layers[layer][slot], matrix);
      for (size_t i = 0; i < left.size(); ++i) EXPECT_NEAR(left[i], right[i], 1e-5F);
    }
  }
}

void ExpectSame(const AdapterWeights& a, const AdapterWeights& b) {
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (size_t layer = 0; layer < a.layers.size(); ++layer) {
    ASSERT_EQ(a.layers[layer].size(), b.layers[layer].size());
    for (size_t slot = 0; slot < a.layers[layer].size(); ++slot) {
      const LowRank& left = a.layers[layer][slot];
      const LowRank& right = b.layers[layer][slot];
      EXPECT_EQ(left.rank, right.rank);
      EXPECT_EQ(left.alpha, right.alpha);
      EXPECT_EQ(left.scale, right.scale);
      EXPECT_EQ(left.a, right.a);
      EXPECT_EQ(left.b, right.b);
    }
  }
}

std::string FileOf(const json& header, const std::string& data) {
  const std::string text = header.dump();
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text + data;
}

std::string WithoutMetadata(const std::string& tensors) {
  uint64_t length = 0;
  std::memcpy(&length, tensors.data(), sizeof(length));
  json header = json::parse(tensors.substr(8, length));
  header.erase("__metadata__");
  return FileOf(header, tensors.substr(8 + length));
}

// Adds a tensor of equal numbers.
void AddTensor(const std::string& name, const std::vector<uint32_t>& shape, float number,
               json& header, std::string& data) {
  const size_t begin = data.size();
  for (uint32_t i = 0; i < shape[0] * shape[1]; ++i) {
    data.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
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
  const std::string tensors = FileOf(header, data);
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
  ExpectSame(weights, *read);
  // PEFT does not keep the metadata of the file. Then q, k and v share their A, and the rank stays
  // what it is.
  const std::string as_of_peft = WithoutMetadata(files.tensors);
  const auto shared = ReadPeft(files.config, Bytes(as_of_peft), shape);
  ASSERT_TRUE(shared) << ErrorOf(shared);
  ExpectSameProducts(weights, *shared, shape);
  const PeftFiles again = *WritePeft(*shared, shape);
  const auto twice = ReadPeft(again.config, Bytes(again.tensors), shape);
  ASSERT_TRUE(twice) << ErrorOf(twice);
  ExpectSame(*shared, *twice);
}

TEST(Peft, ExpertsAndEndsAreReadBack) {
  for (const bool interleaved : {false, true}) {
    const AdapterShape shape = SmallMixture(interleaved);
    AdapterWeights weights = RandomEverywhere(shape, 2, 4);
    PeftFiles files = *WritePeft(weights, shape);
    auto read = ReadPeft(files.config, Bytes(files.tensors), shape);
    ASSERT_TRUE(read) << ErrorOf(read);
    ExpectSame(weights, *read);
    // An expert is left alone, and another has a rank of its own: the products are the same.
    weights.layers[1][AdapterSlot(AdapterTarget::kGate, 2)] = {};
    LowRank& other = weights.layers[1][AdapterSlot(AdapterTarget::kDown, 1)];
    other = {.rank = 3, .alpha = 9, .scale = 3};
    other.a.assign(size_t{3} * 10, 0.5F);
    other.b.assign(size_t{3} * 6, 0.25F);
    files = *WritePeft(weights, shape);
    read = ReadPeft(files.config, Bytes(files.tensors), shape);
    ASSERT_TRUE(read) << ErrorOf(read);
    ExpectSameProducts(weights, *read, shape);
  }
}

TEST(Peft, ExpertsMayBeModules) {
  const AdapterShape shape = SmallMixture();
  for (const auto& [names, parent] :
       {std::pair(std::array{"gate_proj", "up_proj", "down_proj"}, "mlp"),
        std::pair(std::array{"w1", "w3", "w2"}, "block_sparse_moe")}) {
    const auto file = [&](uint32_t expert) {
      json header;
      std::string data;
      for (size_t i = 0; i < names.size(); ++i) {
        const auto [in, out] = shape.targets[4 + i];
        AddTensor(fmt::format("base_model.model.model.layers.1.{}.experts.{}.{}.lora_A.weight",
                              parent, expert, names[i]),
                  {2, in}, 0.5F, header, data);
        AddTensor(fmt::format("base_model.model.model.layers.1.{}.experts.{}.{}.lora_B.weight",
                              parent, expert, names[i]),
                  {out, 2}, static_cast<float>(i + 1), header, data);
      }
      return FileOf(header, data);
    };
    const json config = {{"r", 2}, {"lora_alpha", 2}, {"target_modules", names}};
    const std::string good = file(2);
    const auto read = ReadPeft(config.dump(), Bytes(good), shape);
    ASSERT_TRUE(read) << ErrorOf(read);
    for (uint32_t i = 0; i < 3; ++i) {
      const auto target = static_cast<AdapterTarget>(4 + i);
      const LowRank& part = read->layers[1][AdapterSlot(target, 2)];
      EXPECT_EQ(part.rank, 2U);
      EXPECT_EQ(part.b, std::vector<float>(size_t{2} * shape.Of(target).out, i + 1.0F));
    }
    EXPECT_EQ(read->layers[1][AdapterSlot(AdapterTarget::kGate, 0)].rank, 0U);
    const std::string bad = file(3);
    EXPECT_NE(ErrorOf(ReadPeft(config.dump(), Bytes(bad), shape)).find("3 experts"),
              std::string::npos);
  }
}

TEST(Peft, TensorsOfExpertsAndEndsThatDoNotFitAreRefused) {
  const AdapterShape shape = SmallMixture();
  const PeftFiles files = *WritePeft(RandomEverywhere(shape, 2, 4), shape);
  const std::string prefix = "base_model.model.";
  const std::string stacked = prefix + "model.layers.0.mlp.experts.lora_A.weight";
  const std::string embedding = prefix + "model.embed_tokens.lora_embedding_A";
  const auto after = [&](const std::function<void(json&, json&)>& change,
                         const std::string& more = "") {
    uint64_t length = 0;
    std::memcpy(&length, files.tensors.data(), sizeof(length));
    json config = json::parse(files.config);
    json header = json::parse(files.tensors.substr(8, length));
    change(config, header);
    const std::string tensors = FileOf(header, files.tensors.substr(8 + length) + more);
    return ErrorOf(ReadPeft(config.dump(), Bytes(tensors), shape));
  };
  EXPECT_EQ(after([](json&, json&) {}), "");
  const auto expect = [](const std::string& error, std::string_view part) {
    EXPECT_NE(error.find(part), error.npos) << error;
  };
  expect(after([&](json& config, json&) { config["target_parameters"] = nullptr; }),
         "target_parameters");
  expect(after([&](json& config, json&) { config["target_parameters"] = 5; }), "");
  expect(after([&](json&, json& header) { header[stacked]["shape"] = {5, 12}; }), "3 experts");
  expect(after([&](json&, json& header) { header[embedding]["shape"] = {7, 2}; }), "[rank, 7]");
  expect(after([&](json& config, json&) { config["ensure_weight_tying"] = true; }),
         "ensure_weight_tying");
  expect(after([&](json&, json& header) {
           header[prefix + "model.embed_tokens.lora_A.weight"] = header[embedding];
           header.erase(embedding);
         }),
         "embed_tokens");
  // PEFT writes the model's own embedding beside the adapter.
  const auto with_base = [&](uint32_t vocab) {
    const std::string numbers(vocab * size_t{6} * sizeof(float), '\0');
    const auto add = [&](json&, json& header) {
      uint64_t length = 0;
      std::memcpy(&length, files.tensors.data(), sizeof(length));
      const size_t end = files.tensors.size() - 8 - length;
      header[prefix + "model.embed_tokens.base_layer.weight"] = {
          {"dtype", "F32"}, {"shape", {vocab, 6}}, {"data_offsets", {end, end + numbers.size()}}};
    };
    return after(add, numbers);
  };
  EXPECT_EQ(with_base(7), "");
  expect(with_base(8), "[7, 6]");
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

// torch.save writes zip archives. They are no safetensors files, whatever their name.
TEST(Peft, ArchivesAndLyingHeadersAreRefused) {
  const AdapterShape shape = SmallShape();
  const PeftFiles files = *WritePeft(Random(shape, 1, 1), shape);
  const auto error = [&](const std::string& tensors) {
    return ErrorOf(ReadPeft(files.config, Bytes(tensors), shape));
  };
  std::string archive("PK\x03\x04\x14\0\0\0\x08\0", 10);
  archive += std::string(1'000, '\0') + "adapter_model.safetensors";
  EXPECT_NE(error(archive).find(kPeftTensorFile), std::string::npos);
  for (const uint64_t length : {uint64_t{1} << 62, ~uint64_t{0}, uint64_t{files.tensors.size()}}) {
    std::string lying = files.tensors;
    std::memcpy(lying.data(), &length, sizeof(length));
    EXPECT_NE(error(lying).find(kPeftTensorFile), std::string::npos) << length;
  }
  EXPECT_NE(error(files.tensors + "PK\x05\x06").find(kPeftTensorFile), std::string::npos)
      << "an archive after the tensors";
  const std::string overlapping = ErrorAfter([](json&, json& header, std::string&) {
    header[kB]["data_offsets"] = header[kA]["data_offsets"];
  });
  EXPECT_FALSE(overlapping.empty());
  const std::string nested(100'000, '[');
  EXPECT_FALSE(ErrorOf(ReadPeft(nested, Bytes(files.tensors), shape)).empty());
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
