#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/config.h"

namespace pie {
namespace {

using nlohmann::json;
using Scaling = RopeConfig::Scaling;

// Returns the fields that every model has, with those of `more` added.
json Base(const std::string& model_type, const json& more = json::object()) {
  json config = {{"model_type", model_type}, {"hidden_size", 4096},
                 {"num_hidden_layers", 32},  {"num_attention_heads", 32},
                 {"num_key_value_heads", 8}, {"intermediate_size", 14336},
                 {"vocab_size", 128256},     {"max_position_embeddings", 131072},
                 {"rms_norm_eps", 1e-5}};
  config.update(more);
  return config;
}

Result<ModelConfig> Read(const json& config) {
  return ReadConfigJson(config.dump(), "config.json");
}

TEST(ConfigJsonTest, Llama31) {
  const auto config = Read(Base("llama", {{"rope_theta", 500000.0},
                                          {"hidden_act", "silu"},
                                          {"attention_bias", false},
                                          {"rope_scaling",
                                           {{"factor", 8.0},
                                            {"low_freq_factor", 1.0},
                                            {"high_freq_factor", 4.0},
                                            {"original_max_position_embeddings", 8192},
                                            {"rope_type", "llama3"}}}}));
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->architecture, Architecture::kLlama);
  EXPECT_EQ(config->head_dim, 128U);
  EXPECT_EQ(config->kv_heads, 8U);
  EXPECT_EQ(config->vocab_size, 128256U);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_EQ(config->rope.pairing, RopeConfig::Pairing::kHalves);
  EXPECT_EQ(config->rope.theta, 500000);
  EXPECT_EQ(config->rope.scaling, Scaling::kLlama3);
  // Expected values computed by hand from the published formula.
  const auto& factors = config->rope.factors;
  ASSERT_EQ(factors.size(), 64U);
  EXPECT_EQ(factors[28], 1);
  EXPECT_NEAR(factors[29], 1.207484, 1e-5);
  EXPECT_NEAR(factors[32], 2.694530, 1e-5);
  EXPECT_NEAR(factors[34], 5.257327, 1e-5);
  EXPECT_EQ(factors[35], 8);
}

TEST(ConfigJsonTest, MistralAndMixtral) {
  const auto absent = Read(Base("mistral"));
  ASSERT_TRUE(absent) << absent.error().text;
  EXPECT_EQ(absent->sliding_window, 4096U);
  EXPECT_TRUE(absent->IsSliding(31));
  const auto none = Read(Base("mistral", {{"sliding_window", nullptr}, {"head_dim", 128}}));
  ASSERT_TRUE(none) << none.error().text;
  EXPECT_EQ(none->sliding_window, 0U);

  const auto mixtral =
      Read(Base("mixtral", {{"num_local_experts", 8}, {"num_experts_per_tok", 2}}));
  ASSERT_TRUE(mixtral) << mixtral.error().text;
  EXPECT_EQ(mixtral->moe.experts, 8U);
  EXPECT_EQ(mixtral->moe.ffn_size, 14336U);
  EXPECT_TRUE(mixtral->moe.renormalize);
  EXPECT_EQ(mixtral->rope.theta, 1000000);
}

TEST(ConfigJsonTest, Qwen2WithYarn) {
  const auto config = Read(
      Base("qwen2",
           {{"tie_word_embeddings", true},
            {"rope_theta", 1000000.0},
            {"sliding_window", 131072},
            {"use_sliding_window", false},
            {"rope_scaling",
             {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}}}}));
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->attention_output_bias);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_EQ(config->sliding_window, 0U);
  EXPECT_EQ(config->rope.factors[23], 1);
  EXPECT_NEAR(config->rope.factors[24], 1.046154, 1e-5);
  EXPECT_NEAR(config->rope.factors[30], 1.446809, 1e-5);
  EXPECT_NEAR(config->rope.factors[39], 3.4, 1e-5);
  EXPECT_NEAR(config->rope.factors[40], 4, 1e-5);
  EXPECT_NEAR(config->rope.attention_factor, 1.138629, 1e-6);

  const auto sliding = Read(
      Base("qwen2",
           {{"sliding_window", 4096}, {"use_sliding_window", true}, {"max_window_layers", 28}}));
  ASSERT_TRUE(sliding) << sliding.error().text;
  EXPECT_FALSE(sliding->IsSliding(27));
  EXPECT_TRUE(sliding->IsSliding(28));
}

TEST(ConfigJsonTest, Qwen3AndItsExperts) {
  const auto qwen3 = Read(
      Base("qwen3", {{"head_dim", 64},
                     {"rope_parameters", {{"rope_theta", 5000000}, {"rope_type", "default"}}}}));
  ASSERT_TRUE(qwen3) << qwen3.error().text;
  EXPECT_EQ(qwen3->qk_norm, QkNorm::kHead);
  EXPECT_EQ(qwen3->head_dim, 64U);
  EXPECT_EQ(qwen3->rope.theta, 5000000);
  const json experts = {{"num_experts", 128},           {"num_experts_per_tok", 8},
                        {"moe_intermediate_size", 768}, {"norm_topk_prob", true},
                        {"decoder_sparse_step", 1},     {"mlp_only_layers", json::array()}};
  const auto moe = Read(Base("qwen3_moe", experts));
  ASSERT_TRUE(moe) << moe.error().text;
  EXPECT_EQ(moe->moe.experts, 128U);
  EXPECT_EQ(moe->moe.ffn_size, 768U);
  EXPECT_TRUE(moe->moe.renormalize);
}

TEST(ConfigJsonTest, GemmaFamilies) {
  const auto gemma2 = Read(Base("gemma2", {{"head_dim", 256},
                                           {"num_attention_heads", 16},
                                           {"query_pre_attn_scalar", 144},
                                           {"hidden_act", "gelu_pytorch_tanh"},
                                           {"final_logit_softcapping", nullptr}}));
  ASSERT_TRUE(gemma2) << gemma2.error().text;
  EXPECT_EQ(gemma2->attention_softcap, 50);
  EXPECT_EQ(gemma2->final_softcap, 0);
  EXPECT_EQ(gemma2->norm_offset, 1);
  EXPECT_EQ(gemma2->embedding_scale, 64);
  EXPECT_NEAR(gemma2->attention_scale, 1.0 / 12, 1e-7);
  EXPECT_EQ(gemma2->sliding_window, 4096U);
  EXPECT_TRUE(gemma2->tied_embeddings);

  // As published for Gemma 3 4B: the file leaves most values to the family's defaults.
  const auto gemma3 = Read({{"model_type", "gemma3"},
                            {"text_config",
                             {{"hidden_size", 2560},
                              {"intermediate_size", 10240},
                              {"model_type", "gemma3_text"},
                              {"num_hidden_layers", 34},
                              {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                              {"sliding_window", 1024}}}});
  ASSERT_TRUE(gemma3) << gemma3.error().text;
  EXPECT_EQ(gemma3->heads, 8U);
  EXPECT_EQ(gemma3->kv_heads, 4U);
  EXPECT_EQ(gemma3->head_dim, 256U);
  EXPECT_EQ(gemma3->vocab_size, 262208U);
  EXPECT_EQ(gemma3->rope.theta, 1000000);
  EXPECT_EQ(gemma3->rope.sliding_theta, 10000);
  EXPECT_EQ(gemma3->rope.factors.front(), 8);
  EXPECT_TRUE(gemma3->IsSliding(4));
  EXPECT_FALSE(gemma3->IsSliding(5));

  const auto newer = Read(Base("gemma3_text", {{"sliding_window", 512},
                                               {"rope_parameters",
                                                {{"full_attention", {{"rope_theta", 2e6}}},
                                                 {"sliding_attention", {{"rope_theta", 2e4}}}}}}));
  ASSERT_TRUE(newer) << newer.error().text;
  EXPECT_EQ(newer->rope.theta, 2e6);
  EXPECT_EQ(newer->rope.sliding_theta, 2e4);
}

TEST(ConfigJsonTest, Phi3Olmo2GptOss) {
  const auto phi3 = Read(Base("phi3", {{"partial_rotary_factor", 0.75},
                                       {"original_max_position_embeddings", 4096},
                                       {"sliding_window", 262144},
                                       {"rope_scaling",
                                        {{"type", "su"},
                                         {"short_factor", std::vector<double>(48, 1.5)},
                                         {"long_factor", std::vector<double>(48, 2.5)}}}}));
  ASSERT_TRUE(phi3) << phi3.error().text;
  EXPECT_EQ(phi3->rope.dims, 96U);
  EXPECT_EQ(phi3->rope.scaling, Scaling::kLongRope);
  EXPECT_EQ(phi3->rope.long_factors.back(), 2.5F);
  RopeConfig rope = phi3->rope;
  ChooseFactors(rope.original_context, rope);
  EXPECT_EQ(rope.factors, phi3->rope.factors);
  ChooseFactors(uint64_t{rope.original_context} + 1, rope);
  EXPECT_EQ(rope.factors, phi3->rope.long_factors);
  EXPECT_NEAR(phi3->rope.attention_factor, 1.190238, 1e-6);
  EXPECT_EQ(phi3->sliding_window, 0U);

  const auto olmo2 = Read(Base("olmo2", {{"rope_scaling", nullptr}}));
  ASSERT_TRUE(olmo2) << olmo2.error().text;
  EXPECT_EQ(olmo2->norms, NormPlacement::kAfter);

  json layers = json::array();
  for (int i = 0; i < 16; ++i) {
    layers.insert(layers.end(), {"sliding_attention", "full_attention"});
  }
  const auto gpt_oss = Read(Base("gpt_oss", {{"head_dim", 64},
                                             {"num_local_experts", 32},
                                             {"num_experts_per_tok", 4},
                                             {"sliding_window", 128},
                                             {"layer_types", layers},
                                             {"attention_bias", true},
                                             {"quantization_config", {{"quant_method", "mxfp4"}}},
                                             {"rope_theta", 150000},
                                             {"rope_scaling",
                                              {{"rope_type", "yarn"},
                                               {"factor", 32.0},
                                               {"beta_fast", 32.0},
                                               {"beta_slow", 1.0},
                                               {"truncate", false},
                                               {"original_max_position_embeddings", 4096}}}}));
  ASSERT_TRUE(gpt_oss) << gpt_oss.error().text;
  EXPECT_TRUE(gpt_oss->attention_sinks);
  EXPECT_TRUE(gpt_oss->qkv_bias && gpt_oss->attention_output_bias && gpt_oss->ffn_bias);
  EXPECT_TRUE(gpt_oss->IsSliding(0));
  EXPECT_FALSE(gpt_oss->IsSliding(1));
  EXPECT_NEAR(gpt_oss->rope.factors[9], 1.104300, 1e-5);
  EXPECT_NEAR(gpt_oss->rope.factors[17], 13.757521, 1e-3);
  EXPECT_NEAR(gpt_oss->rope.attention_factor, 1.346574, 1e-6);
}

// As DeepSeek and Qwen, AutoFP8, llm-compressor, ModelOpt and Meta describe their fp8 weights.
TEST(ConfigJsonTest, KnowsTheFp8WeightsOfSeveralTools) {
  const auto read = [](const json& quantization) {
    const auto config = Read(Base("llama", {{"quantization_config", quantization}}));
    EXPECT_TRUE(config) << config.error().text;
    return config ? config->fp8 : Fp8Config{};
  };
  const Fp8Config blocks = read({{"quant_method", "fp8"},
                                 {"fmt", "e4m3"},
                                 {"activation_scheme", "dynamic"},
                                 {"weight_block_size", {128, 64}}});
  EXPECT_TRUE(blocks.used);
  EXPECT_EQ(blocks.block_rows, 128U);
  EXPECT_EQ(blocks.block_columns, 64U);
  const Fp8Config whole = read(
      {{"quant_method", "fp8"}, {"activation_scheme", "static"}, {"weight_block_size", nullptr}});
  EXPECT_TRUE(whole.used);
  EXPECT_EQ(whole.block_rows, 0U);
  const json weights = {{"num_bits", 8}, {"type", "float"}, {"symmetric", true}};
  EXPECT_TRUE(read({{"quant_method", "compressed-tensors"},
                    {"format", "float-quantized"},
                    {"config_groups", {{"group_0", {{"weights", weights}}}}}})
                  .used);
  EXPECT_TRUE(read({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}).used);
  EXPECT_TRUE(read({{"quant_method", "fbgemm_fp8"}}).used);
  EXPECT_FALSE(Read(Base("llama"))->fp8.used);
}

TEST(ConfigJsonTest, ErrorsNameTheFieldAndTheKnownValues) {
  const auto expect = [](const json& config, const char* part) {
    const auto read = Read(config);
    const std::string error = read ? "no error" : read.error().text;
    EXPECT_NE(error.find(part), std::string::npos) << error << "\nlacks: " << part;
  };
  expect(Base("mamba"),
         "config.json: unknown model_type 'mamba'; known types: llama, mistral, mixtral, qwen2, "
         "qwen3, qwen3_moe, gemma2, gemma3, gemma3_text, phi3, olmo2, gpt_oss");
  expect(json::object(), "model_type ''");
  expect({{"model_type", "llama"}}, "'num_hidden_layers' is missing");
  expect(Base("llama", {{"num_attention_heads", 0}}), "'num_attention_heads' is 0");
  expect(Base("llama", {{"num_key_value_heads", 5}}), "32 heads cannot share 5 KV heads");
  expect(Base("llama", {{"num_attention_heads", 30}}), "30 heads do not divide");
  expect(Base("llama", {{"hidden_size", 1.5}}), "'hidden_size' must be a whole number");
  expect(Base("llama", {{"num_hidden_layers", 4e9}}), "the number of layers is 4000000000");
  expect(Base("llama", {{"rms_norm_eps", 0}}), "epsilon");
  expect(Base("llama", {{"hidden_act", "relu"}}), "activation 'relu'");
  expect(Base("llama", {{"use_bidirectional_attention", true}}),
         "'use_bidirectional_attention' is not supported");
  expect(Base("gpt_oss", {{"swiglu_limit", 6}}), "swiglu_limit = 7");
  expect(Base("llama", {{"quantization_config", {{"quant_method", "awq"}}}}), "by 'awq'");
  expect(Base("llama", {{"quantization_config", {{"quant_method", "fp8"}, {"fmt", "e5m2"}}}}),
         "by 'fp8' are not supported; supported: fp8 (e4m3) and mxfp4");
  expect(Base("llama", {{"quantization_config", {{"quant_method", "modelopt"}}}}), "by 'modelopt'");
  expect(Base("llama", {{"quantization_config",
                         {{"quant_method", "compressed-tensors"},
                          {"format", "float-quantized"},
                          {"config_groups", {{"group_0", {{"weights", {{"num_bits", 4}}}}}}}}}}),
         "by 'compressed-tensors'");
  expect(Base("llama",
              {{"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128}}}}}),
         "must be [rows, columns]");
  expect(Base("llama", {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}}), "'dynamic'");
  expect(Base("llama", {{"rope_scaling", {{"type", "linear"}}}}), "'factor' is missing");
  expect(Base("llama", {{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}}), "not positive");
  expect(Base("llama", {{"layer_types", {"linear_attention"}}}), "linear_attention");
  expect(Base("gpt_oss", {{"num_local_experts", 4}, {"num_experts_per_tok", 5}}),
         "the number of experts used is 5");
  expect(Base("gpt_oss", {{"num_local_experts", 4},
                          {"num_experts_per_tok", 2},
                          {"layer_types", {"sliding_attention"}}}),
         "the kinds of 1 layers, but the model has 32");
  EXPECT_FALSE(ReadConfigJson("{\"model_type\": \"llama\",", "config.json"));
  EXPECT_EQ(OpenConfigJson("/no/such/config.json").error().code, Code::kNotFound);
}

// Replaces every field by values of the wrong type or size.
TEST(ConfigJsonTest, OddValuesNeverCrash) {
  const json scaling = {{"rope_type", "yarn"},
                        {"factor", 4.0},
                        {"beta_fast", 32},
                        {"low_freq_factor", 1},
                        {"high_freq_factor", 4},
                        {"attention_factor", 1},
                        {"original_max_position_embeddings", 4096},
                        {"short_factor", {1, 2}},
                        {"long_factor", {1, 2}},
                        {"mscale", 1},
                        {"mscale_all_dim", 1}};
  const json odd = {nullptr,
                    0,
                    -1,
                    1,
                    3,
                    1e300,
                    -1e300,
                    4294967295U,
                    1e-40,
                    true,
                    "x",
                    "llama3",
                    "yarn",
                    json::array(),
                    json::object(),
                    json::array({1, "x"}),
                    18446744073709551615U};
  const auto types = {"llama",  "mixtral", "qwen2", "qwen3_moe",
                      "gemma2", "gemma3",  "phi3",  "gpt_oss"};
  int read = 0;
  int refused = 0;
  for (const char* type : types) {
    const json whole = Base(type, {{"rope_scaling", scaling},
                                   {"rope_theta", 10000},
                                   {"head_dim", 128},
                                   {"sliding_window", 128},
                                   {"use_sliding_window", true},
                                   {"layer_types", {"full_attention"}},
                                   {"partial_rotary_factor", 0.5},
                                   {"num_local_experts", 8},
                                   {"num_experts_per_tok", 2},
                                   {"query_pre_attn_scalar", 256},
                                   {"attn_logit_softcapping", 50.0}});
    for (const json& value : odd) {
      for (const auto& [key, old] : whole.items()) {
        json bad = whole;
        bad[key] = value;
        ++(Read(bad) ? read : refused);
      }
      for (const auto& [key, old] : scaling.items()) {
        json bad = whole;
        bad.erase("layer_types");
        bad["rope_scaling"][key] = value;
        ++(Read(bad) ? read : refused);
      }
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace pie
