// A llama model with a few thousand random weights for tests, as a GGUF file, and its expected
// logits: a forward pass in plain code over unpacked weights, written from the definition.
//
// Unless `exact`, it rounds where the device does: inputs of quantised matrices to bytes, keys and
// values to F16, and with `bf16` the factors of attention. If a number is rounded to the other
// side, all later numbers change, so without this the two passes would differ by as much as the
// rounding error, which could hide a small mistake.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/machine/simd.h"
#include "backend/cpu/testing.h"
#include "base/brle.h"
#include "base/random.h"
#include "model/adapter/adapter.h"
#include "model/dequantize.h"
#include "model/gguf_test_writer.h"
#include "model/half.h"

namespace pie::cpu {

class TinyLlama {
 public:
  static constexpr uint32_t kLayers = 2;
  static constexpr uint32_t kHidden = 64;
  static constexpr uint32_t kHeads = 6;
  static constexpr uint32_t kKvHeads = 2;
  static constexpr uint32_t kHeadDim = 16;
  static constexpr uint32_t kFfn = 96;
  static constexpr uint32_t kVocab = 100;  // not a whole number of panels

  // Matrices of layers have type `layers`; the embedding and the output layer have type `ends`.
  // Supported types: F32, Q8_0, Q4_1.
  TinyLlama(DType layers, DType ends, bool tied) {
    writer_.Add("general.architecture", "llama");
    writer_.Add("llama.block_count", kLayers);
    writer_.Add("llama.context_length", uint32_t{2048});
    writer_.Add("llama.embedding_length", kHidden);
    writer_.Add("llama.feed_forward_length", kFfn);
    writer_.Add("llama.attention.head_count", kHeads);
    writer_.Add("llama.attention.head_count_kv", kKvHeads);
    writer_.Add("llama.attention.key_length", kHeadDim);
    writer_.Add("llama.attention.value_length", kHeadDim);
    writer_.Add("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    writer_.Add("llama.rope.dimension_count", kHeadDim);
    writer_.Add("llama.vocab_size", kVocab);
    Matrix("token_embd.weight", ends, kVocab, kHidden);
    for (uint32_t i = 0; i < kLayers; ++i) {
      Norm(Name(i, "attn_norm"));
      Matrix(Name(i, "attn_q"), layers, kHeads * kHeadDim, kHidden);
      Matrix(Name(i, "attn_k"), layers, kKvHeads * kHeadDim, kHidden);
      Matrix(Name(i, "attn_v"), layers, kKvHeads * kHeadDim, kHidden);
      Matrix(Name(i, "attn_output"), layers, kHidden, kHeads * kHeadDim);
      Norm(Name(i, "ffn_norm"));
      Matrix(Name(i, "ffn_gate"), layers, kFfn, kHidden);
      Matrix(Name(i, "ffn_up"), layers, kFfn, kHidden);
      Matrix(Name(i, "ffn_down"), layers, kHidden, kFfn);
    }
    Norm("output_norm.weight");
    if (!tied) Matrix("output.weight", ends, kVocab, kHidden);
  }

  std::string Bytes() const { return writer_.Bytes(); }
  // An adapter for Logits; null: the model alone.
  void SetAdapter(const AdapterWeights* adapter) { adapter_ = adapter; }

  // Returns the logits of every token of a sequence, [tokens][vocab]. `masks` is empty or has one
  // per token.
  std::vector<std::vector<double>> Logits(const std::vector<uint32_t>& tokens,
                                          const std::vector<uint32_t>& positions,
                                          const std::vector<std::vector<uint32_t>>& masks,
                                          bool exact, bool bf16 = false) {
    exact_ = exact;
    bf16_ = bf16;
    using Vector = std::vector<double>;
    const size_t n = tokens.size();
    std::vector<Vector> x(n);
    const std::vector<float>& embedding = weights_.at("token_embd.weight");
    for (size_t t = 0; t < n; ++t) {
      const auto row = embedding.begin() + tokens[t] * kHidden;
      x[t].assign(row, row + kHidden);
      if (adapter_ != nullptr) Add(x[t], EmbeddingTimes(tokens[t]));
    }
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      std::vector<Vector> keys(n);
      std::vector<Vector> values(n);
      for (size_t t = 0; t < n; ++t) {
        const Vector in = Normed(Name(layer, "attn_norm"), x[t]);
        Vector q = Times(Name(layer, "attn_q"), in);
        keys[t] = Times(Name(layer, "attn_k"), in);
        values[t] = Times(Name(layer, "attn_v"), in);
        Rotate(q, positions[t]);
        Rotate(keys[t], positions[t]);
        RoundToHalf(keys[t]);
        RoundToHalf(values[t]);
        Vector attended(kHeads * kHeadDim);
        for (uint32_t head = 0; head < kHeads; ++head) {
          const uint32_t kv_at = head / (kHeads / kKvHeads) * kHeadDim;
          double* const out = &attended[head * kHeadDim];
          double total = 0;
          double most = -INFINITY;
          // The weights of 64 keys are rounded relative to one maximum.
          for (uint32_t first = 0; first <= t; first += 64) {
            std::map<uint32_t, double> scores;
            const double before = most;
            for (uint32_t s = first; s <= t && s < first + 64; ++s) {
              if (!masks.empty() && !BrleTest(masks[t], s)) continue;
              for (uint32_t d = 0; d < kHeadDim; ++d) {
                scores[s] += ToBf16(q[head * kHeadDim + d] / std::sqrt(kHeadDim)) *
                             ToBf16(keys[s][kv_at + d]);
              }
              most = std::max(most, scores[s]);
            }
            if (scores.empty()) continue;
            const double keep = std::exp(before - most);
            total *= keep;
            for (uint32_t d = 0; d < kHeadDim; ++d) out[d] *= keep;
            for (const auto& [s, score] : scores) {
              const double weight = ToBf16(std::exp(score - most));
              total += weight;
              for (uint32_t d = 0; d < kHeadDim; ++d) {
                out[d] += weight * ToBf16(values[s][kv_at + d]);
              }
            }
          }
          for (uint32_t d = 0; d < kHeadDim && total > 0; ++d) out[d] /= total;
        }
        Add(x[t], Times(Name(layer, "attn_output"), attended));
        const Vector half = Normed(Name(layer, "ffn_norm"), x[t]);
        Vector gate = Times(Name(layer, "ffn_gate"), half);
        const Vector up = Times(Name(layer, "ffn_up"), half);
        for (uint32_t i = 0; i < kFfn; ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
        Add(x[t], Times(Name(layer, "ffn_down"), gate));
      }
    }
    const bool tied = !weights_.contains("output.weight");
    std::vector<Vector> logits;
    for (const Vector& state : x) {
      logits.push_back(
          Times(tied ? "token_embd.weight" : "output.weight", Normed("output_norm.weight", state)));
    }
    return logits;
  }

 private:
  static std::string Name(uint32_t layer, const char* part) {
    return "blk." + std::to_string(layer) + "." + part + ".weight";
  }

  void Norm(const std::string& name) {
    std::vector<float> weights = RandomFloats(kHidden, ++seed_, 0.5F);
    for (float& weight : weights) weight += 1;
    Write(name, {kHidden}, DType::kF32, FloatBytes(weights));
  }

  void Matrix(const std::string& name, DType dtype, uint32_t rows, uint32_t columns) {
    const CounterRng rng{++seed_};
    const float spread = 2 / std::sqrt(static_cast<float>(columns));
    std::string data;
    if (dtype == DType::kF32) {
      data = FloatBytes(RandomFloats(size_t{rows} * columns, seed_, spread));
    } else {
      // Any bytes are valid weights; only the scales must be moderate.
      const uint32_t levels = dtype == DType::kQ8_0 ? 256 : 16;
      for (size_t block = 0; block < size_t{rows} * columns / 32; ++block) {
        const float scale = spread * 2 / static_cast<float>(levels) * (0.5F + rng.Float(block));
        GgufTestWriter::Value(data, FloatToHalf(scale));
        if (dtype == DType::kQ4_1) {
          GgufTestWriter::Value(data, FloatToHalf(scale * -7.5F));
          minima_[name].push_back(HalfToFloat(FloatToHalf(scale * -7.5F)));
        }
        for (uint32_t i = 0; i < (dtype == DType::kQ8_0 ? 32U : 16U); ++i) {
          data += static_cast<char>(rng.Bits((block + 1) << 20 | i));
        }
      }
    }
    Write(name, {columns, rows}, dtype, data);
  }

  void Write(const std::string& name, const std::vector<uint64_t>& dimensions, DType dtype,
             const std::string& data) {
    uint64_t elements = 1;
    for (uint64_t size : dimensions) elements *= size;
    std::vector<float>& weights = weights_[name];
    weights.resize(elements);
    quantized_[name] = dtype != DType::kF32;
    EXPECT_TRUE(Dequantize(dtype, std::as_bytes(std::span(data)), weights));
    writer_.AddTensor(name, dimensions, dtype, data);
  }

  static std::string FloatBytes(const std::vector<float>& x) {
    return {reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float)};
  }

  // Rounds to multiples of a unit, chosen so that the sum of that many squares of the largest
  // multiple fits 32 bits.
  static std::vector<double> RoundToWhole(std::vector<double> x) {
    const double limit =
        std::min(32767.0, std::floor(std::sqrt(2147483647.0 / static_cast<double>(x.size()))));
    double unit = 0;
    for (const double value : x) unit = std::max(unit, std::abs(value) / limit);
    for (double& value : x) value = unit > 0 ? std::round(value / unit) * unit : 0;
    return x;
  }

  // Rounds all numbers but the largest few (one per two blocks) to bytes. Returns the sums of the
  // blocks without those.
  static std::vector<double> RoundToBytes(std::vector<double>& x) {
    std::vector<size_t> order(x.size());
    std::iota(order.begin(), order.end(), size_t{0});
    // The first among equals.
    std::ranges::sort(order, std::greater(),
                      [&](size_t i) { return std::pair(std::abs(x[i]), ~i); });
    std::map<size_t, double> kept;
    for (size_t i = 0; i < std::min<size_t>(x.size() / 32 / 2, 8); ++i) {
      kept[order[i]] = std::exchange(x[order[i]], 0);
    }
    for (size_t block = 0; block < x.size(); block += 32) {
      double most = 0;
      for (size_t i = 0; i < 32; ++i) most = std::max(most, std::abs(x[block + i]));
      for (size_t i = 0; i < 32 && most > 0; ++i) {
        x[block + i] = std::round(x[block + i] / most * 127) * most / 127;
      }
    }
    std::vector<double> sums(x.size() / 32);
    for (size_t i = 0; i < x.size(); ++i) sums[i / 32] += x[i];
    for (const auto& [i, value] : kept) x[i] = value;
    return sums;
  }

  std::vector<double> Times(const std::string& name, std::vector<double> x) const {
    const std::vector<float>& w = weights_.at(name);
    std::vector<double> y = AdapterTimes(name, x, w.size() / x.size());
    if (adapter_ != nullptr && w.size() / x.size() == kVocab) Add(y, HeadTimes(x));
    std::vector<double> sums;
    if (!exact_ && quantized_.at(name)) sums = RoundToBytes(x);
    for (size_t i = 0; i < w.size(); ++i) y[i / x.size()] += w[i] * x[i % x.size()];
    if (!sums.empty() && minima_.contains(name)) RoundMinima(minima_.at(name), x, sums, y);
    return y;
  }

  // The adapter's part of the embedding of a token, and of the logits of a state.
  std::vector<double> EmbeddingTimes(uint32_t token) const {
    const LowRank& part = adapter_->layers[kLayers][AdapterSlot(AdapterTarget::kEmbedding)];
    std::vector<double> y(kHidden);
    for (size_t i = 0; i < y.size(); ++i) {
      for (size_t j = 0; j < part.rank; ++j) {
        y[i] += part.scale * part.b[i * part.rank + j] * part.a[j * kVocab + token];
      }
    }
    return y;
  }
  std::vector<double> HeadTimes(const std::vector<double>& x) const {
    const LowRank& part = adapter_->layers[kLayers][AdapterSlot(AdapterTarget::kHead)];
    std::vector<double> y(kVocab);
    for (size_t j = 0; j < part.rank; ++j) {
      double sum = 0;
      for (size_t k = 0; k < x.size(); ++k) sum += part.a[j * x.size() + k] * x[k];
      for (size_t i = 0; i < y.size(); ++i) y[i] += part.scale * part.b[i * part.rank + j] * sum;
    }
    return y;
  }

  // The adapter's part of a product, in the order of this file's rows.
  std::vector<double> AdapterTimes(const std::string& name, const std::vector<double>& x,
                                   size_t size) const {
    std::vector<double> y(size);
    constexpr const char* kParts[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                      "ffn_gate", "ffn_up", "ffn_down"};
    for (uint32_t layer = 0; layer < kLayers && adapter_ != nullptr; ++layer) {
      for (size_t target = 0; target < kAdapterTargets; ++target) {
        const LowRank& part = adapter_->layers[layer][target];
        if (name != Name(layer, kParts[target]) || part.rank == 0) continue;
        for (size_t i = 0; i < size; ++i) {
          // Neighbours in this file are half a head apart in the adapter.
          const size_t within = i % kHeadDim;
          const size_t original = i - within + within % 2 * (kHeadDim / 2) + within / 2;
          const size_t row = target < 2 ? original : i;
          for (size_t j = 0; j < part.rank; ++j) {
            double sum = 0;
            for (size_t k = 0; k < x.size(); ++k) sum += part.a[j * x.size() + k] * x[k];
            y[i] += part.scale * part.b[row * part.rank + j] * sum;
          }
        }
      }
    }
    return y;
  }

  // Minima are rounded, and so are the sums that they are multiplied with.
  static void RoundMinima(const std::vector<double>& minima, const std::vector<double>& x,
                          const std::vector<double>& sums, std::vector<double>& y) {
    const std::vector<double> whole_sums = RoundToWhole(sums);
    for (size_t row = 0; row < y.size(); ++row) {
      const auto first = minima.begin() + static_cast<ptrdiff_t>(row * sums.size());
      const std::vector<double> exact(first, first + static_cast<ptrdiff_t>(sums.size()));
      const std::vector<double> whole = RoundToWhole(exact);
      for (size_t i = 0; i < x.size(); ++i) y[row] += (whole[i / 32] - exact[i / 32]) * x[i];
      for (size_t b = 0; b < sums.size(); ++b) y[row] += whole[b] * (whole_sums[b] - sums[b]);
    }
  }

  std::vector<double> Normed(const std::string& name, std::vector<double> x) const {
    double squares = 0;
    for (double value : x) squares += value * value;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= factor * weights_.at(name)[i];
    return x;
  }

  static void Rotate(std::vector<double>& heads, uint32_t position) {
    for (size_t i = 0; i < heads.size(); i += 2) {
      const double angle =
          position * std::pow(10'000, -static_cast<double>(i % kHeadDim) / kHeadDim);
      const double a = heads[i];
      const double b = heads[i + 1];
      heads[i] = a * std::cos(angle) - b * std::sin(angle);
      heads[i + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
  }

  void RoundToHalf(std::vector<double>& x) const {
    if (exact_) return;
    for (double& value : x) value = HalfToFloat(FloatToHalf(static_cast<float>(value)));
  }

  // Rounds to eight bits if attention multiplies bfloat16s.
  double ToBf16(double x) const {
    if (exact_ || !bf16_) return x;
    int exponent;
    const double fraction = std::frexp(x, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
  }

  static void Add(std::vector<double>& x, const std::vector<double>& more) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += more[i];
  }

  GgufTestWriter writer_;
  std::map<std::string, std::vector<float>> weights_;
  std::map<std::string, bool> quantized_;
  std::map<std::string, std::vector<double>> minima_;  // [rows, blocks]
  const AdapterWeights* adapter_ = nullptr;
  uint64_t seed_ = 0;
  bool exact_ = false;
  bool bf16_ = false;
};

}  // namespace pie::cpu
