#include <gtest/gtest.h>

#include <cmath>
#include <ctime>

#include "base/random.h"
#include "model/config.h"
#include "model/gguf_test_writer.h"

namespace pie {
namespace {

using Scaling = RopeConfig::Scaling;

// Returns a file with the metadata that every architecture has and those that `more` adds.
template <class More>
std::string File(const std::string& architecture, More more) {
  GgufTestWriter writer;
  const auto key = [&](const char* name) { return architecture + "." + name; };
  writer.Add("general.architecture", architecture);
  writer.Add(key("block_count"), uint32_t{12});
  writer.Add(key("context_length"), uint32_t{8192});
  writer.Add(key("embedding_length"), uint32_t{64});
  writer.Add(key("feed_forward_length"), uint32_t{96});
  writer.Add(key("attention.head_count"), uint32_t{4});
  writer.Add(key("attention.head_count_kv"), uint32_t{2});
  writer.Add(key("attention.layer_norm_rms_epsilon"), 1e-5F);
  writer.AddZeros("token_embd.weight", {64, 100});
  more(writer, key);
  return writer.Bytes();
}

Result<ModelConfig> Read(const std::string& bytes) {
  const auto gguf = PIE_TRY(ParseGguf(bytes));
  return ReadConfig(gguf);
}

constexpr auto kNothing = [](auto&, auto&) {};

TEST(ConfigGgufTest, Llama) {
  const auto config = Read(File("llama", [](auto& w, auto& key) {
    w.Add(key("rope.freq_base"), 100000.0F);
    w.Add(key("vocab_size"), uint32_t{100});
  }));
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->architecture, Architecture::kLlama);
  EXPECT_EQ(config->layers, 12U);
  EXPECT_EQ(config->hidden_size, 64U);
  EXPECT_EQ(config->heads, 4U);
  EXPECT_EQ(config->kv_heads, 2U);
  EXPECT_EQ(config->head_dim, 16U);
  EXPECT_EQ(config->ffn_size, 96U);
  EXPECT_EQ(config->vocab_size, 100U);
  EXPECT_EQ(config->context_length, 8192U);
  EXPECT_EQ(config->norm_eps, 1e-5F);
  EXPECT_EQ(config->attention_scale, 0.25F);
  EXPECT_EQ(config->rope.theta, 100000);
  EXPECT_EQ(config->rope.dims, 16U);
  EXPECT_EQ(config->rope.pairing, RopeConfig::Pairing::kNeighbours);
  EXPECT_EQ(config->rope.scaling, Scaling::kNone);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_FALSE(config->qkv_bias);
  EXPECT_EQ(config->sliding_window, 0U);
  EXPECT_EQ(config->moe.experts, 0U);
}

TEST(ConfigGgufTest, Llama3StoresItsFactorsInATensor) {
  const auto config = Read(File("llama", [](auto& w, auto&) {
    const std::vector<float> factors = {1, 1, 1, 2, 4, 8, 8, 8};
    const std::string data(reinterpret_cast<const char*>(factors.data()), 32);
    w.AddTensor("rope_freqs.weight", {8}, DType::kF32, data);
    w.AddZeros("output.weight", {64, 100});
  }));
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->rope.scaling, Scaling::kLlama3);
  EXPECT_EQ(config->rope.factors[3], 2);
  EXPECT_FALSE(config->tied_embeddings);
}

TEST(ConfigGgufTest, MixtralIsALlamaWithExperts) {
  const auto config = Read(File("llama", [](auto& w, auto& key) {
    w.Add(key("expert_count"), uint32_t{8});
    w.Add(key("expert_used_count"), uint32_t{2});
  }));
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config->architecture, Architecture::kMixtral);
  EXPECT_EQ(config->moe.experts, 8U);
  EXPECT_EQ(config->moe.experts_used, 2U);
  EXPECT_EQ(config->moe.ffn_size, 96U);
  EXPECT_EQ(config->rope.pairing, RopeConfig::Pairing::kNeighbours);
}

TEST(ConfigGgufTest, QwenFamilies) {
  const auto qwen2 =
      Read(File("qwen2", [](auto& w, auto&) { w.AddZeros("blk.0.attn_q.bias", {64}); }));
  ASSERT_TRUE(qwen2) << qwen2.error().text;
  EXPECT_TRUE(qwen2->qkv_bias);
  EXPECT_FALSE(qwen2->attention_output_bias);
  EXPECT_EQ(qwen2->rope.pairing, RopeConfig::Pairing::kHalves);

  const auto qwen3 = Read(File("qwen3", [](auto& w, auto& key) {
    w.Add(key("attention.key_length"), uint32_t{32});
    w.Add(key("attention.value_length"), uint32_t{32});
    w.Add(key("rope.scaling.type"), "yarn");
    w.Add(key("rope.scaling.factor"), 4.0F);
    w.Add(key("rope.scaling.original_context_length"), uint32_t{2048});
  }));
  ASSERT_TRUE(qwen3) << qwen3.error().text;
  EXPECT_EQ(qwen3->qk_norm, QkNorm::kHead);
  EXPECT_EQ(qwen3->head_dim, 32U);
  EXPECT_EQ(qwen3->rope.scaling, Scaling::kYarn);
  EXPECT_EQ(qwen3->rope.original_context, 2048U);
  EXPECT_EQ(qwen3->rope.factors.front(), 1);
  EXPECT_EQ(qwen3->rope.factors.back(), 4);
  EXPECT_NEAR(qwen3->rope.attention_factor, 1.138629, 1e-6);

  const auto moe = Read(File("qwen3moe", [](auto& w, auto& key) {
    w.Add(key("expert_count"), uint32_t{128});
    w.Add(key("expert_used_count"), uint32_t{8});
    w.Add(key("expert_feed_forward_length"), uint32_t{48});
  }));
  ASSERT_TRUE(moe) << moe.error().text;
  EXPECT_EQ(moe->moe.ffn_size, 48U);
  EXPECT_TRUE(moe->moe.renormalize);
}

TEST(ConfigGgufTest, GemmaFamilies) {
  const auto gemma2 = Read(File("gemma2", [](auto& w, auto& key) {
    w.Add(key("attention.sliding_window"), uint32_t{4096});
    w.Add(key("attn_logit_softcapping"), 50.0F);
    w.Add(key("final_logit_softcapping"), 30.0F);
  }));
  ASSERT_TRUE(gemma2) << gemma2.error().text;
  EXPECT_EQ(gemma2->attention_softcap, 50);
  EXPECT_EQ(gemma2->final_softcap, 30);
  EXPECT_EQ(gemma2->activation, Activation::kGeluTanh);
  EXPECT_EQ(gemma2->norms, NormPlacement::kAround);
  EXPECT_EQ(gemma2->norm_offset, 0);  // converters have already added it to the weights
  EXPECT_EQ(gemma2->embedding_scale, 8);
  EXPECT_TRUE(gemma2->IsSliding(0));
  EXPECT_FALSE(gemma2->IsSliding(1));

  const auto gemma3 = Read(File("gemma3", [](auto& w, auto& key) {
    w.Add(key("attention.sliding_window"), uint32_t{512});
    w.Add(key("rope.freq_base"), 1000000.0F);
    w.Add(key("rope.scaling.type"), "linear");
    w.Add(key("rope.scaling.factor"), 8.0F);
  }));
  ASSERT_TRUE(gemma3) << gemma3.error().text;
  EXPECT_EQ(gemma3->qk_norm, QkNorm::kHead);
  EXPECT_EQ(gemma3->rope.theta, 1000000);
  EXPECT_EQ(gemma3->rope.sliding_theta, 10000);
  EXPECT_EQ(gemma3->rope.factors, std::vector<float>(8, 8.0F));
  EXPECT_TRUE(gemma3->IsSliding(4));
  EXPECT_FALSE(gemma3->IsSliding(5));
  EXPECT_FALSE(gemma3->IsSliding(11));
}

TEST(ConfigGgufTest, Phi3Olmo2GptOss) {
  const auto phi3 = Read(File("phi3", [](auto& w, auto& key) {
    w.Add(key("rope.dimension_count"), uint32_t{12});
    w.Add(key("rope.scaling.original_context_length"), uint32_t{4096});
    w.Add(key("attention.sliding_window"), uint32_t{262144});  // wider than the context
    const std::vector<float> ones(6, 1.0F);
    const std::string data(reinterpret_cast<const char*>(ones.data()), 24);
    w.AddTensor("rope_factors_long.weight", {6}, DType::kF32, data);
    w.AddTensor("rope_factors_short.weight", {6}, DType::kF32, data);
  }));
  ASSERT_TRUE(phi3) << phi3.error().text;
  EXPECT_TRUE(phi3->fused_qkv);
  EXPECT_EQ(phi3->rope.scaling, Scaling::kLongRope);
  EXPECT_NEAR(phi3->rope.attention_factor, std::sqrt(1 + std::log(2) / std::log(4096)), 1e-6);
  EXPECT_EQ(phi3->sliding_window, 0U);

  const auto olmo2 = Read(File("olmo2", kNothing));
  ASSERT_TRUE(olmo2) << olmo2.error().text;
  EXPECT_EQ(olmo2->norms, NormPlacement::kAfter);
  EXPECT_EQ(olmo2->qk_norm, QkNorm::kWhole);

  const auto gpt_oss = Read(File("gpt-oss", [](auto& w, auto& key) {
    w.Add(key("expert_count"), uint32_t{32});
    w.Add(key("expert_used_count"), uint32_t{4});
    w.Add(key("expert_feed_forward_length"), uint32_t{96});
    w.Add(key("attention.sliding_window"), uint32_t{128});
    w.AddZeros("blk.0.attn_q.bias", {64});
    w.AddZeros("blk.0.attn_output.bias", {64});
    w.AddZeros("blk.0.ffn_down_exps.bias", {64, 32});
  }));
  ASSERT_TRUE(gpt_oss) << gpt_oss.error().text;
  EXPECT_TRUE(gpt_oss->attention_sinks);
  EXPECT_TRUE(gpt_oss->qkv_bias && gpt_oss->attention_output_bias && gpt_oss->ffn_bias);
  EXPECT_TRUE(gpt_oss->moe.router_bias);
  EXPECT_EQ(gpt_oss->activation, Activation::kClampedSwiglu);
  EXPECT_TRUE(gpt_oss->IsSliding(0));
  EXPECT_FALSE(gpt_oss->IsSliding(1));
}

TEST(ConfigGgufTest, ErrorsNameTheFieldAndTheKnownValues) {
  const auto expect = [](const Result<ModelConfig>& config, const char* part) {
    const std::string error = config ? "no error" : config.error().text;
    EXPECT_NE(error.find(part), std::string::npos) << error << "\nlacks: " << part;
  };
  expect(Read(File("rwkv7", kNothing)),
         "test.gguf: unknown architecture 'rwkv7'; known architectures: llama, qwen2, qwen3, "
         "qwen3moe, "
         "gemma2, gemma3, phi3, olmo2, gpt-oss");
  expect(Read(GgufTestWriter().Bytes()), "'general.architecture' is missing");
  const auto with = [](auto change) {
    GgufTestWriter writer;
    writer.Add("general.architecture", "llama");
    change(writer);
    return Read(writer.Bytes());
  };
  expect(with([](auto&) {}), "metadata 'llama.block_count' is missing");
  expect(with([](auto& w) { w.Add("llama.block_count", "12"); }), "must be a whole number");
  expect(with([](auto& w) { w.Add("llama.block_count", int32_t{-1}); }), "must be a whole number");
  const auto sizes = [&](uint32_t layers, uint32_t heads, uint32_t kv_heads, uint32_t head_dim) {
    return with([&](GgufTestWriter& w) {
      w.Add("llama.block_count", layers);
      w.Add("llama.context_length", uint32_t{8192});
      w.Add("llama.embedding_length", uint32_t{64});
      w.Add("llama.feed_forward_length", uint32_t{96});
      w.Add("llama.attention.head_count", heads);
      w.AddArray<uint32_t>("llama.attention.head_count_kv", {kv_heads, kv_heads});
      w.Add("llama.attention.key_length", head_dim);
      w.Add("llama.attention.value_length", head_dim);
      w.Add("llama.attention.layer_norm_rms_epsilon", 1e-5F);
      w.Add("llama.vocab_size", uint32_t{100});
    });
  };
  EXPECT_TRUE(sizes(2, 4, 2, 16));
  expect(sizes(4'000'000'000, 4, 2, 16), "the number of layers is 4000000000");
  expect(sizes(0, 4, 2, 16), "the number of layers is 0");
  expect(sizes(2, 0, 2, 16), "the number of heads is 0");
  expect(sizes(2, 4, 0, 16), "the number of KV heads is 0");
  expect(sizes(2, 4, 3, 16), "4 heads cannot share 3 KV heads");
  expect(sizes(2, 4, 2, 15), "the rotary dimensions are 15");
  expect(sizes(2, 4, 2, 4'000'000'000), "the head dimension is 4000000000");
  expect(Read(File("llama", [](auto& w, auto& key) { w.Add(key("rope.freq_base"), 0.0F); })),
         "rotary base");
  expect(Read(File("llama", [](auto& w, auto& key) { w.Add(key("rope.scaling.type"), "ntk"); })),
         "unknown rotary scaling 'ntk'");
  expect(Read(File("llama", [](auto& w, auto& key) { w.Add(key("expert_count"), uint32_t{4}); })),
         "expert_used_count' is missing");
}

TEST(ConfigGgufTest, FlippedBitsNeverCrash) {
  const std::string whole = File("gemma3", [](auto& w, auto& key) {
    w.Add(key("attention.sliding_window"), uint32_t{512});
    w.Add(key("rope.scaling.type"), "linear");
    w.Add(key("rope.scaling.factor"), 8.0F);
  });
  int read = 0;
  const std::clock_t start = std::clock();
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const CounterRng random{seed};
    std::string bad = whole;
    const uint64_t header = 700;  // the metadata; flips elsewhere do not matter
    for (uint64_t i = 0; i <= random.Bits(0) % 3; ++i) {
      bad[random.Bits(2 * i + 1) % header] ^= static_cast<char>(1 << random.Bits(2 * i + 2) % 8);
    }
    read += Read(bad).has_value() ? 1 : 0;
  }
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 15);
  EXPECT_GT(read, 0);  // some flips are harmless
  EXPECT_LT(read, 3000);
}

}  // namespace
}  // namespace pie
