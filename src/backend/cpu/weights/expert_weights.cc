#include "backend/cpu/weights/expert_weights.h"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace pie::cpu {
namespace {

using Experts = std::vector<FeedForwardWeights>;

class ExpertLoader {
 public:
  ExpertLoader(WeightReader& reader, const ModelConfig& config, const WeightNames& names,
               uint32_t layer)
      : reader_(reader), config_(config), names_(names), layer_(layer), out_(config.moe.experts) {}

  Result<Experts> Load() {
    const uint64_t hidden = config_.hidden_size;
    const uint64_t ffn = config_.moe.ffn_size;
    if (names_.experts == ExpertStorage::kInterleaved) {
      PIE_RETURN_IF_ERROR(Turned(
          names_.expert_gate, {&FeedForwardWeights::gate, &FeedForwardWeights::up}, ffn, hidden));
      PIE_RETURN_IF_ERROR(Turned(names_.expert_down, {&FeedForwardWeights::down}, hidden, ffn));
      return std::move(out_);
    }
    const auto load =
        names_.experts == ExpertStorage::kEach ? &ExpertLoader::Each : &ExpertLoader::Stacked;
    PIE_RETURN_IF_ERROR((this->*load)(names_.expert_gate, &FeedForwardWeights::gate, ffn, hidden));
    PIE_RETURN_IF_ERROR((this->*load)(names_.expert_up, &FeedForwardWeights::up, ffn, hidden));
    PIE_RETURN_IF_ERROR((this->*load)(names_.expert_down, &FeedForwardWeights::down, hidden, ffn));
    return std::move(out_);
  }

 private:
  using Part = Linear FeedForwardWeights::*;

  std::string Name(std::string_view part, std::string_view kind) const {
    return names_.InLayer(layer_, part).append(kind);
  }

  Status Each(std::string_view pattern, Part part, uint64_t rows, uint64_t columns) {
    for (uint32_t e = 0; e < out_.size(); ++e) {
      const std::string name = fmt::format(fmt::runtime(pattern), e);
      Linear& linear = out_[e].*part;
      linear.w = PIE_TRY(reader_.Matrix(Name(name, ".weight"), rows, columns));
      if (config_.ffn_bias) linear.bias = PIE_TRY(reader_.Floats(Name(name, ".bias"), {rows}));
    }
    return {};
  }

  Status Stacked(std::string_view name, Part part, uint64_t rows, uint64_t columns) {
    const Tensor& all = *PIE_TRY(reader_.Find(Name(name, ".weight"), {out_.size(), rows, columns}));
    std::vector<float> biases;
    if (config_.ffn_bias) {
      biases = PIE_TRY(reader_.Floats(Name(name, ".bias"), {out_.size(), rows}));
    }
    for (size_t e = 0; e < out_.size(); ++e) {
      Linear& linear = out_[e].*part;
      linear.w = PIE_TRY(reader_.Rows(all, e * rows, rows));
      if (config_.ffn_bias) linear.bias.assign(&biases[e * rows], &biases[e * rows] + rows);
    }
    return {};
  }

  // gpt-oss: row i of part p is row i × parts + p of the tensor.
  Status Turned(std::string_view name, const std::vector<Part>& parts, uint64_t rows,
                uint64_t columns) {
    const uint64_t all_rows = rows * parts.size();
    const auto biases = PIE_TRY(reader_.Floats(Name(name, "_bias"), {out_.size(), all_rows}));
    for (size_t e = 0; e < out_.size(); ++e) {
      for (size_t p = 0; p < parts.size(); ++p) {
        std::vector<float>& bias = (out_[e].*parts[p]).bias;
        for (uint64_t i = 0; i < rows; ++i) {
          bias.push_back(biases[e * all_rows + i * parts.size() + p]);
        }
      }
    }
    if (reader_.Has(Name(name, "_blocks"))) return Blocks(name, parts, rows, columns);
    return Transposed(name, parts, rows, columns);
  }

  // Reads [experts, columns, all rows] of numbers of one size.
  Status Transposed(std::string_view name, const std::vector<Part>& parts, uint64_t rows,
                    uint64_t columns) {
    const uint64_t all_rows = rows * parts.size();
    const Tensor& all = *PIE_TRY(reader_.Find(Name(name, ""), {out_.size(), columns, all_rows}));
    if (InfoOf(all.dtype).block_elements != 1) {
      return reader_.BadTensor(
          all, {Code::kUnavailable,
                fmt::format("experts of type {} are not supported; use F32, F16, BF16 or MXFP4",
                            NameOf(all.dtype))});
    }
    const size_t size = InfoOf(all.dtype).block_bytes;
    const size_t expert_bytes = all_rows * columns * size;
    std::vector<std::byte> turned(rows * columns * size);
    for (size_t e = 0; e < out_.size(); ++e) {
      const auto from = all.data.subspan(e * expert_bytes, expert_bytes);
      for (size_t p = 0; p < parts.size(); ++p) {
        for (uint64_t c = 0; c < columns; ++c) {
          const std::byte* in = from.data() + (c * all_rows + p) * size;
          for (uint64_t i = 0; i < rows; ++i, in += parts.size() * size) {
            std::memcpy(&turned[(i * columns + c) * size], in, size);
          }
        }
        (out_[e].*parts[p]).w = PIE_TRY(reader_.Pack(all, all.dtype, turned, rows, columns));
      }
      reader_.Done(from);
    }
    return {};
  }

  // Reads MXFP4 stored as [experts, all rows, blocks, 16 bytes], where a byte holds two
  // neighbouring numbers, with the exponents in another tensor. GGUF's blocks begin with the
  // exponent, and a byte holds numbers i and i + 16.
  Status Blocks(std::string_view name, const std::vector<Part>& parts, uint64_t rows,
                uint64_t columns) {
    constexpr uint64_t kBlock = 32;
    constexpr uint64_t kBytes = kBlock / 2;
    const uint64_t all_rows = rows * parts.size();
    const uint64_t blocks = columns / kBlock;
    const Tensor& bits =
        *PIE_TRY(reader_.Find(Name(name, "_blocks"), {out_.size(), all_rows, blocks, kBytes}));
    const Tensor& scales =
        *PIE_TRY(reader_.Find(Name(name, "_scales"), {out_.size(), all_rows, blocks}));
    for (const Tensor* tensor : {&bits, &scales}) {
      if (tensor->dtype != DType::kU8 || columns % kBlock != 0) {
        return reader_.BadTensor(
            *tensor, {Code::kInvalid, fmt::format("{} blocks of {} numbers are not MXFP4",
                                                  NameOf(tensor->dtype), columns)});
      }
    }
    std::vector<std::byte> rows_of(rows * blocks * (1 + kBytes));
    for (size_t e = 0; e < out_.size(); ++e) {
      for (size_t p = 0; p < parts.size(); ++p) {
        std::byte* to = rows_of.data();
        for (uint64_t i = 0; i < rows; ++i) {
          const uint64_t first = (e * all_rows + i * parts.size() + p) * blocks;
          for (uint64_t b = first; b < first + blocks; ++b, to += 1 + kBytes) {
            const std::byte* const in = &bits.data[b * kBytes];
            to[0] = scales.data[b];
            for (uint64_t j = 0; j < kBytes; ++j) {
              const int shift = j % 2 == 0 ? 0 : 4;
              const std::byte low = in[j / 2] >> shift & std::byte{0xF};
              const std::byte high = in[(j + kBytes) / 2] >> shift & std::byte{0xF};
              to[1 + j] = low | high << 4;
            }
          }
        }
        (out_[e].*parts[p]).w = PIE_TRY(reader_.Pack(bits, DType::kMXFP4, rows_of, rows, columns));
      }
      const size_t expert_bytes = all_rows * blocks * kBytes;
      reader_.Done(bits.data.subspan(e * expert_bytes, expert_bytes));
    }
    reader_.Done(scales.data);
    return {};
  }

  WeightReader& reader_;
  const ModelConfig& config_;
  const WeightNames& names_;
  const uint32_t layer_;
  Experts out_;
};

}  // namespace

Result<Experts> LoadExperts(WeightReader& reader, const ModelConfig& config,
                            const WeightNames& names, uint32_t layer) {
  return ExpertLoader(reader, config, names, layer).Load();
}

}  // namespace pie::cpu
