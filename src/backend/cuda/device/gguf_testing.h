// For tests: random weights of GGUF's types, and a llama model of several types.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/random.h"
#include "model/dtype.h"
#include "model/gguf_test_writer.h"

namespace pie::cuda {

// Any bytes are valid blocks; only the scales must be moderate. Weights are about 1 / √columns.
inline std::string RandomBlocks(DType dtype, uint64_t rows, uint64_t columns, uint64_t seed) {
  const DTypeInfo& info = InfoOf(dtype);
  const CounterRng rng{seed};
  std::string bytes(rows * columns / info.block_elements * info.block_bytes, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(rng.Bits(i));
    if (dtype == DType::kF8E4M3 && (bytes[i] & 0x7F) == 0x7F) bytes[i] = 0x11;
  }
  if (dtype == DType::kF32) {
    for (size_t i = 0; i < bytes.size() / 4; ++i) {
      const float number = (rng.Float(i) * 2 - 1) * 2 / std::sqrt(static_cast<float>(columns));
      std::memcpy(&bytes[i * 4], &number, 4);
    }
  }
  struct Field {
    DType dtype;
    size_t at;
    float value;  // of weights of about 1
  };
  constexpr Field kFields[] = {{DType::kQ8_0, 0, 0.015F},  {DType::kQ4_0, 0, 0.25F},
                               {DType::kQ4_1, 0, 0.25F},   {DType::kQ4_1, 2, -1.9F},
                               {DType::kQ4_K, 0, 0.008F},  {DType::kQ4_K, 2, 0.06F},
                               {DType::kQ6_K, 208, 0.001F}};
  for (const Field& field : kFields) {
    if (field.dtype != dtype) continue;
    for (size_t block = 0; block * info.block_bytes < bytes.size(); ++block) {
      const float factor = (0.5F + rng.Float(block)) / std::sqrt(static_cast<float>(columns));
      const auto half = std::bit_cast<uint16_t>(static_cast<_Float16>(field.value * factor));
      std::memcpy(&bytes[block * info.block_bytes + field.at], &half, 2);
    }
  }
  return bytes;
}

// A llama model of one layer, as a GGUF file.
struct GgufLlama {
  static constexpr uint32_t kHidden = 256;
  static constexpr uint32_t kHeads = 4;
  static constexpr uint32_t kKvHeads = 2;
  static constexpr uint32_t kHeadDim = 64;
  static constexpr uint32_t kVocab = 50;

  DType usual = DType::kF32;
  DType value = usual;  // of v
  DType down = usual;
  DType ends = usual;

  std::string Bytes() const {
    GgufTestWriter writer;
    writer.Add("general.architecture", "llama");
    writer.Add("llama.block_count", uint32_t{1});
    writer.Add("llama.context_length", uint32_t{512});
    writer.Add("llama.embedding_length", kHidden);
    writer.Add("llama.feed_forward_length", kHidden);
    writer.Add("llama.attention.head_count", kHeads);
    writer.Add("llama.attention.head_count_kv", kKvHeads);
    writer.Add("llama.attention.key_length", kHeadDim);
    writer.Add("llama.attention.value_length", kHeadDim);
    writer.Add("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    writer.Add("llama.rope.dimension_count", kHeadDim);
    writer.Add("llama.vocab_size", kVocab);
    uint64_t seed = 0;
    const auto matrix = [&](const char* name, DType dtype, uint64_t rows) {
      writer.AddTensor(name, {kHidden, rows}, dtype, RandomBlocks(dtype, rows, kHidden, ++seed));
    };
    const auto norm = [&](const char* name) {
      writer.AddTensor(name, {kHidden}, DType::kF32, std::string(Ones()));
    };
    matrix("token_embd.weight", ends, kVocab);
    norm("blk.0.attn_norm.weight");
    matrix("blk.0.attn_q.weight", usual, kHeads * kHeadDim);
    matrix("blk.0.attn_k.weight", usual, kKvHeads * kHeadDim);
    matrix("blk.0.attn_v.weight", value, kKvHeads * kHeadDim);
    matrix("blk.0.attn_output.weight", usual, kHidden);
    norm("blk.0.ffn_norm.weight");
    matrix("blk.0.ffn_gate.weight", usual, kHidden);
    matrix("blk.0.ffn_up.weight", usual, kHidden);
    matrix("blk.0.ffn_down.weight", down, kHidden);
    norm("output_norm.weight");
    return writer.Bytes();
  }

 private:
  static std::string Ones() {
    std::string bytes;
    for (uint32_t i = 0; i < kHidden; ++i) GgufTestWriter::Value(bytes, 1.0F);
    return bytes;
  }
};

}  // namespace pie::cuda
