#include "backend/cuda/device/device_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "backend/cuda/device/expert_reader.h"
#include "backend/cuda/device/matrix_builder.h"
#include "backend/cuda/device/tensor_reader.h"
#include "backend/cuda/device/uploads.h"
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/random_fill.h"

namespace pie::cuda {
namespace {

uint32_t Padded(uint32_t size) {
  return (size + 7) / 8 * 8;
}

// Where row j of gate goes in a matrix that has gate and up in turn; up is 8 rows below.
uint64_t GateRow(uint64_t j) {
  return j / 8 * 16 + j % 8;
}
uint64_t UpRow(uint64_t j) {
  return GateRow(j) + 8;
}

class Loader {
 public:
  Loader(const ModelFiles& files, CudaWeights wanted, Stream stream, const LoadProgress& progress)
      : config_(files.config()),
        wanted_(wanted),
        shape_(config_),
        names_(NamesOf(files)),
        reader_(files, progress),
        uploads_(stream) {}

  Result<DeviceWeights> Load() {
    DeviceWeights out{.memory = std::make_unique<DeviceMemory>()};
    memory_ = out.memory.get();
    const uint64_t hidden = config_.hidden_size;
    out.embedding = PIE_TRY(Plain(names_.embedding, config_.vocab_size, hidden));
    out.output = config_.tied_embeddings
                     ? out.embedding
                     : PIE_TRY(Plain(names_.output, config_.vocab_size, hidden));
    for (uint32_t i = 0; i < config_.layers; ++i) {
      layer_ = i;
      DeviceLayer& layer = out.layers.emplace_back();
      PIE_RETURN_IF_ERROR(Norms(layer));
      PIE_RETURN_IF_ERROR(Attention(layer));
      PIE_RETURN_IF_ERROR(config_.moe.experts == 0 ? FeedForward(layer) : Experts(layer));
    }
    std::vector<float> norm = PIE_TRY(reader_.Floats(names_.output_norm, {hidden}));
    for (float& weight : norm) weight += config_.norm_offset;
    out.output_norm = PIE_TRY(Upload(norm));
    PIE_RETURN_IF_ERROR(reader_.CheckUnused(names_));
    reader_.Finish();
    return out;
  }

 private:
  std::string Name(std::string_view part, std::string_view kind) const {
    return names_.InLayer(layer_, part).append(kind);
  }

  // A tensor that gives rows to a matrix.
  struct Part {
    std::string name;
    uint64_t height = 0;  // of the tensor
    uint64_t first = 0;
    uint64_t rows = 0;
    MatrixBuilder::Place row = [](uint64_t i) { return i; };
  };

  // The kind of a matrix that has these tensors. Layers' weights may be rounded to fp8.
  WeightKind KindOf(std::span<const Part> parts, bool columns_move, bool of_layer) {
    if (wanted_ == CudaWeights::kBf16) return WeightKind::kBf16;
    std::optional<WeightKind> common;
    for (const Part& part : parts) {
      const Tensor* const tensor = reader_.Peek(part.name);
      const WeightKind kind = tensor == nullptr || tensor->shape.empty()
                                  ? WeightKind::kBf16
                                  : reader_.KindOf(*tensor, columns_move);
      common = !common || *common == kind ? kind : WeightKind::kBf16;
    }
    return Rounded(*common, of_layer);
  }
  WeightKind Rounded(WeightKind kind, bool of_layer) const {
    const bool to_fp8 = wanted_ == CudaWeights::kFp8 && of_layer && kind == WeightKind::kBf16;
    return to_fp8 ? WeightKind::kFp8 : kind;
  }

  // Puts tensors of `length` columns into a matrix of rows × columns.
  Result<DeviceMatrix> Matrix(uint64_t rows, uint64_t columns, uint64_t length,
                              std::span<const Part> parts, bool of_layer = true,
                              const MatrixBuilder::Place& column = {}) {
    MatrixBuilder matrix(KindOf(parts, column != nullptr, of_layer), rows, columns, 1, &room_);
    for (const Part& part : parts) {
      const Tensor& tensor =
          *PIE_TRY(reader_.FindFor(matrix, part.name, {part.height, length}, column != nullptr));
      PIE_RETURN_IF_ERROR(reader_.Put(matrix, tensor, part.first, part.rows, part.row, column));
    }
    return Upload(matrix);
  }

  Result<DeviceMatrix> Upload(const MatrixBuilder& matrix) {
    DeviceMatrix out{.data = PIE_TRY(Upload(matrix.data())),
                     .kind = matrix.kind(),
                     .rows = static_cast<uint32_t>(matrix.rows())};
    if (!matrix.scales().empty()) out.scales = PIE_TRY(Upload(matrix.scales()));
    return out;
  }
  Result<const void*> Upload(std::span<const std::byte> bytes) {
    void* const to = PIE_TRY(memory_->Take(bytes.size(), "the weights"));
    uploads_.Copy(to, bytes);
    return to;
  }
  Result<const float*> Upload(std::span<const float> numbers) {
    return static_cast<const float*>(PIE_TRY(Upload(std::as_bytes(numbers))));
  }

  // A tensor that is a matrix of its own, outside of the layers.
  Result<DeviceMatrix> Plain(const std::string& name, uint64_t rows, uint64_t columns) {
    const Part part{.name = name, .height = rows, .rows = rows};
    return Matrix(rows, columns, columns, {&part, 1}, false);
  }

  Result<const float*> Norm(std::string_view part, uint64_t size) {
    auto weights = PIE_TRY(reader_.Floats(Name(part, ".weight"), {size}));
    for (float& weight : weights) weight += config_.norm_offset;
    return Upload(weights);
  }

  Status Norms(DeviceLayer& out) {
    const uint64_t hidden = config_.hidden_size;
    if (config_.norms != NormPlacement::kAfter) {
      out.attention_norm = PIE_TRY(Norm(names_.attention_norm, hidden));
      out.ffn_norm = PIE_TRY(Norm(names_.ffn_norm, hidden));
    }
    if (config_.norms != NormPlacement::kBefore) {
      out.attention_post_norm = PIE_TRY(Norm(names_.attention_post_norm, hidden));
      out.ffn_post_norm = PIE_TRY(Norm(names_.ffn_post_norm, hidden));
    }
    return {};
  }

  // Row or column of number i of head i / head_dim, from head `first` on.
  MatrixBuilder::Place HeadPlace(uint64_t first) const {
    const uint64_t dim = config_.head_dim;
    const uint64_t stride = shape_.head_stride;
    return [=](uint64_t i) { return (first + i / dim) * stride + i % dim; };
  }

  // One matrix, or one each if q, k and v are stored in different types.
  Status Qkv(std::span<const Part> parts, DeviceLayer& out) {
    const uint64_t hidden = config_.hidden_size;
    std::set<WeightKind> kinds;
    for (const Part& part : parts) kinds.insert(KindOf({&part, 1}, false, true));
    if (kinds.size() == 1) {
      out.qkv = {PIE_TRY(Matrix(shape_.qkv_size, hidden, hidden, parts))};
      return {};
    }
    for (Part part : parts) {
      part.row = HeadPlace(0);
      const uint64_t rows = part.rows / config_.head_dim * shape_.head_stride;
      out.qkv.push_back(PIE_TRY(Matrix(rows, hidden, hidden, {&part, 1})));
    }
    return {};
  }

  Status Attention(DeviceLayer& out) {
    const uint64_t hidden = config_.hidden_size;
    const uint64_t dim = config_.head_dim;
    const uint64_t q_rows = config_.heads * dim;
    const uint64_t kv_rows = config_.kv_heads * dim;
    std::vector<float> bias(config_.qkv_bias ? shape_.qkv_size : 0);
    const uint64_t all = q_rows + 2 * kv_rows;
    std::vector<Part> parts;
    uint64_t head = 0;
    uint64_t row = 0;  // in a fused tensor
    const std::pair<std::string_view, uint64_t> sizes[] = {
        {names_.q, q_rows}, {names_.k, kv_rows}, {names_.v, kv_rows}};
    for (const auto& [own, rows] : sizes) {
      const std::string_view name = config_.fused_qkv ? names_.qkv : own;
      const uint64_t height = config_.fused_qkv ? all : rows;
      const Part& part = parts.emplace_back(Part{.name = Name(name, ".weight"),
                                                 .height = height,
                                                 .first = config_.fused_qkv ? row : 0,
                                                 .rows = rows,
                                                 .row = HeadPlace(head)});
      if (config_.qkv_bias) {
        const auto values = PIE_TRY(reader_.Floats(Name(name, ".bias"), {height}));
        for (uint64_t i = 0; i < rows; ++i) bias[part.row(i)] = values[part.first + i];
      }
      head += rows / dim;
      row += rows;
    }
    PIE_RETURN_IF_ERROR(Qkv(parts, out));
    if (config_.qkv_bias) out.qkv_bias = PIE_TRY(Upload(bias));

    const bool padded = dim != shape_.head_stride;
    const Part o{.name = Name(names_.o, ".weight"), .height = hidden, .rows = hidden};
    out.o = PIE_TRY(Matrix(hidden, shape_.q_size, q_rows, {&o, 1}, true,
                           padded ? HeadPlace(0) : MatrixBuilder::Place{}));
    if (config_.attention_output_bias) {
      out.o_bias = PIE_TRY(Upload(PIE_TRY(reader_.Floats(Name(names_.o, ".bias"), {hidden}))));
    }
    if (config_.qk_norm != QkNorm::kNone) {
      const bool each = config_.qk_norm == QkNorm::kHead;
      out.q_norm = PIE_TRY(Norm(names_.q_norm, each ? dim : q_rows));
      out.k_norm = PIE_TRY(Norm(names_.k_norm, each ? dim : kv_rows));
    }
    if (config_.attention_sinks) {
      out.sinks = PIE_TRY(Upload(PIE_TRY(reader_.Floats(Name(names_.sinks, ""), {config_.heads}))));
    }
    return {};
  }

  Status FeedForward(DeviceLayer& out) {
    const uint64_t hidden = config_.hidden_size;
    const uint64_t ffn = config_.ffn_size;
    const bool fused = config_.fused_qkv;
    const Part gate_up[] = {{.name = Name(fused ? names_.gate_up : names_.gate, ".weight"),
                             .height = fused ? 2 * ffn : ffn,
                             .rows = ffn,
                             .row = GateRow},
                            {.name = Name(fused ? names_.gate_up : names_.up, ".weight"),
                             .height = fused ? 2 * ffn : ffn,
                             .first = fused ? ffn : 0,
                             .rows = ffn,
                             .row = UpRow}};
    out.gate_up = PIE_TRY(Matrix(2 * uint64_t{shape_.ffn_stride}, hidden, hidden, gate_up));
    const Part down{.name = Name(names_.down, ".weight"), .height = hidden, .rows = hidden};
    out.down = PIE_TRY(Matrix(hidden, shape_.ffn_stride, ffn, {&down, 1}));
    return {};
  }

  Status Experts(DeviceLayer& out) {
    const uint64_t hidden = config_.hidden_size;
    const uint64_t ffn = config_.moe.ffn_size;
    const uint64_t experts = config_.moe.experts;
    const uint64_t stride = shape_.ffn_stride;
    MatrixBuilder router(WeightKind::kBf16, experts, hidden);
    const Tensor& tensor =
        *PIE_TRY(reader_.Find(Name(names_.router, ".weight"), {experts, hidden}));
    PIE_RETURN_IF_ERROR(reader_.Put(router, tensor, 0, experts, [](uint64_t i) { return i; }));
    out.router = PIE_TRY(Upload(router)).data;
    if (config_.moe.router_bias) {
      out.router_bias =
          PIE_TRY(Upload(PIE_TRY(reader_.Floats(Name(names_.router, ".bias"), {experts}))));
    }
    ExpertReader parts(reader_, config_, names_, layer_);
    const auto kind_of = [&](std::initializer_list<std::string_view> names) {
      if (wanted_ == CudaWeights::kBf16) return WeightKind::kBf16;
      return Rounded(parts.KindOf(names), true);
    };
    MatrixBuilder gate_up(kind_of({names_.expert_gate, names_.expert_up}), 2 * stride, hidden,
                          experts, &room_);
    MatrixBuilder down(kind_of({names_.expert_down}), hidden, stride, experts, &room_);
    ExpertBiases biases;
    if (config_.ffn_bias) {
      biases.gate_up.resize(experts * 2 * stride);
      biases.down.resize(experts * hidden);
    }
    const auto in_expert = [](uint64_t e, uint64_t rows, auto&& place) {
      return [=](uint64_t i) { return e * rows + place(i); };
    };
    PIE_RETURN_IF_ERROR(parts.Read(
        names_.expert_gate, 0, ffn, hidden, gate_up,
        [&](uint64_t e) { return in_expert(e, 2 * stride, GateRow); }, biases.gate_up));
    PIE_RETURN_IF_ERROR(parts.Read(
        names_.expert_up, 1, ffn, hidden, gate_up,
        [&](uint64_t e) { return in_expert(e, 2 * stride, UpRow); }, biases.gate_up));
    PIE_RETURN_IF_ERROR(parts.Read(
        names_.expert_down, 0, hidden, ffn, down,
        [&](uint64_t e) { return in_expert(e, hidden, [](uint64_t i) { return i; }); },
        biases.down));
    out.gate_up = PIE_TRY(Upload(gate_up));
    out.down = PIE_TRY(Upload(down));
    if (config_.ffn_bias) {
      out.gate_up_bias = PIE_TRY(Upload(biases.gate_up));
      out.down_bias = PIE_TRY(Upload(biases.down));
    }
    return {};
  }

  struct ExpertBiases {
    std::vector<float> gate_up, down;
  };

  const ModelConfig& config_;
  const CudaWeights wanted_;
  const DeviceShape shape_;
  const WeightNames names_;
  TensorReader reader_;
  Uploads uploads_;
  MatrixRoom room_;
  DeviceMemory* memory_ = nullptr;
  uint32_t layer_ = 0;
};

}  // namespace

DeviceMemory::~DeviceMemory() {
  for (void* const block : blocks_) Free(block);
}

Result<void*> DeviceMemory::Take(uint64_t bytes, const char* what) {
  void* const block = Allocate(bytes == 0 ? 16 : bytes);
  if (block == nullptr) {
    const uint64_t free = FreeMemory();
    return Fail(Code::kExhausted,
                "the device's memory is too small for {}: {} MB are free, {} MB more are needed",
                what, free >> 20, bytes > free ? ((bytes - free) >> 20) + 1 : bytes >> 20);
  }
  blocks_.push_back(block);
  bytes_ += bytes;
  return block;
}

DeviceShape::DeviceShape(const ModelConfig& config)
    : head_stride(Padded(config.head_dim)),
      q_size(config.heads * head_stride),
      qkv_size((config.heads + 2 * config.kv_heads) * head_stride),
      ffn_stride(Padded(config.moe.experts == 0 ? config.ffn_size : config.moe.ffn_size)) {}

Status CheckShape(const ModelConfig& config, const std::string& name) {
  const uint32_t group = config.heads / config.kv_heads;
  if (config.head_dim > kMaxHeadStride || config.hidden_size % 8 != 0 ||
      config.hidden_size > 32'768 || group > 64) {
    return Fail(Code::kUnavailable,
                "{}: the cuda driver supports heads of at most {} dimensions, at most 64 query "
                "heads per KV head, and hidden sizes that are multiples of 8 up to 32768; this "
                "model has {}, {} and {}; use the cpu driver",
                name, kMaxHeadStride, config.head_dim, group, config.hidden_size);
  }
  if (config.ffn_bias && config.moe.experts == 0) {
    return Fail(Code::kUnavailable,
                "{}: the cuda driver does not support biases of dense feed-forward layers; use the "
                "cpu driver",
                name);
  }
  return {};
}

uint64_t WeightBytes(const ModelConfig& config, CudaWeights kind) {
  const DeviceShape shape(config);
  const uint64_t hidden = config.hidden_size;
  const uint64_t experts = std::max(config.moe.experts, 1U);
  const uint64_t layer = hidden * (shape.qkv_size + shape.q_size + experts * 3 * shape.ffn_stride +
                                   config.moe.experts);
  return config.layers * layer * (kind == CudaWeights::kFp8 ? 1 : 2) +
         2 * config.vocab_size * hidden * (config.tied_embeddings ? 1 : 2);
}

uint64_t WeightBytes(const ModelFiles& files, CudaWeights kind) {
  const WeightNames names = NamesOf(files);
  uint64_t bits = 0;
  for (const Tensor& tensor : files.tensors().all()) {
    const bool matrix = tensor.shape.size() > 1;
    const bool end = tensor.name == names.embedding || tensor.name == names.output;
    WeightKind as = WeightKind::kBf16;
    if (kind != CudaWeights::kBf16) as = KindFor(tensor.dtype).value_or(as);
    if (kind == CudaWeights::kFp8 && matrix && !end && as == WeightKind::kBf16) {
      as = WeightKind::kFp8;
    }
    bits += tensor.elements() * (BitsOf(as) * kSpan + ScaleBytes(as) * 8) / kSpan;
  }
  return bits / 8;
}

Result<DeviceWeights> LoadDeviceWeights(const ModelFiles& files, CudaWeights kind, Stream stream,
                                        const LoadProgress& progress) {
  return Loader(files, kind, stream, progress).Load();
}

Result<DeviceWeights> MakeRandomWeights(const ModelConfig& config, CudaWeights kind,
                                        Stream stream) {
  const DeviceShape shape(config);
  DeviceWeights out{.memory = std::make_unique<DeviceMemory>()};
  uint32_t seed = 0;
  const uint64_t hidden = config.hidden_size;
  const auto matrix = [&](uint64_t rows, uint64_t columns) -> Result<DeviceMatrix> {
    void* const to = PIE_TRY(out.memory->Take(rows * columns * 2, "the weights"));
    FillRandom(to, rows * columns, ++seed, 1.7F / std::sqrt(static_cast<float>(columns)), stream);
    return DeviceMatrix{.data = to, .rows = static_cast<uint32_t>(rows)};
  };
  // Of a layer; with experts, `each` rows for each of them.
  const auto of_layer = [&](uint64_t each, uint64_t columns,
                            uint64_t count = 1) -> Result<DeviceMatrix> {
    if (kind != CudaWeights::kFp8) return matrix(each * count, columns);
    const uint64_t tiles = count * TilesOf(each, columns);
    void* const to = PIE_TRY(out.memory->Take(tiles * TileBytes(WeightKind::kFp8), "the weights"));
    void* const scales =
        PIE_TRY(out.memory->Take(tiles * kTileRows * sizeof(float), "the weights"));
    const float range = 1.7F / std::sqrt(static_cast<float>(columns));
    FillRandomFp8(to, tiles * TileBytes(WeightKind::kFp8), static_cast<float*>(scales),
                  tiles * kTileRows, ++seed, range, stream);
    return DeviceMatrix{.data = to,
                        .scales = scales,
                        .kind = WeightKind::kFp8,
                        .rows = static_cast<uint32_t>(each)};
  };
  const auto ones = [&](uint64_t size) -> Result<const float*> {
    void* const to = PIE_TRY(out.memory->Take(size * sizeof(float), "the weights"));
    const std::vector<float> values(size, 1.0F);
    CopyIn(to, values.data(), size * sizeof(float), stream);
    Synchronize(stream);
    return static_cast<const float*>(to);
  };
  out.embedding = PIE_TRY(matrix(config.vocab_size, hidden));
  out.output = config.tied_embeddings ? out.embedding : PIE_TRY(matrix(config.vocab_size, hidden));
  out.output_norm = PIE_TRY(ones(hidden));
  for (uint32_t i = 0; i < config.layers; ++i) {
    DeviceLayer& layer = out.layers.emplace_back();
    layer.attention_norm = PIE_TRY(ones(hidden));
    layer.ffn_norm = PIE_TRY(ones(hidden));
    layer.qkv = {PIE_TRY(of_layer(shape.qkv_size, hidden))};
    layer.o = PIE_TRY(of_layer(hidden, shape.q_size));
    if (config.qk_norm == QkNorm::kHead) {
      layer.q_norm = PIE_TRY(ones(config.head_dim));
      layer.k_norm = PIE_TRY(ones(config.head_dim));
    }
    const uint64_t experts = std::max(config.moe.experts, 1U);
    if (config.moe.experts > 0) layer.router = PIE_TRY(matrix(experts, hidden)).data;
    layer.gate_up = PIE_TRY(of_layer(2 * uint64_t{shape.ffn_stride}, hidden, experts));
    layer.down = PIE_TRY(of_layer(hidden, shape.ffn_stride, experts));
  }
  Synchronize(stream);
  return out;
}

uint64_t LargestPacked(const DeviceWeights& weights, const ModelConfig& config) {
  const DeviceShape shape(config);
  uint64_t largest = 0;
  const auto count = [&](const DeviceMatrix& matrix, uint64_t rows, uint64_t columns) {
    if (matrix.kind != WeightKind::kBf16) largest = std::max(largest, rows * columns);
  };
  for (const DeviceLayer& layer : weights.layers) {
    for (const DeviceMatrix& part : layer.qkv) count(part, shape.qkv_size, config.hidden_size);
    count(layer.o, config.hidden_size, shape.q_size);
    if (config.moe.experts > 0) continue;
    count(layer.gate_up, 2 * uint64_t{shape.ffn_stride}, config.hidden_size);
    count(layer.down, config.hidden_size, shape.ffn_stride);
  }
  return largest;
}

}  // namespace pie::cuda
