#include "backend/cuda/device/device_adapter.h"

#include <vector>

#include "backend/cuda/device/matrix_builder.h"
#include "backend/cuda/kernels/low_rank.h"
#include "model/limits.h"

namespace pie::cuda {
namespace {

static_assert(kMaxRank >= limits::kAdapterRank);

class CudaAdapter final : public StepAdapter {
 public:
  size_t bytes() const override { return memory_.bytes(); }
  uint64_t matrices() const override { return matrices_; }
  AdapterParts parts() const override { return parts_; }

  Status Load(const AdapterWeights& weights, const ModelConfig& config) {
    const DeviceShape shape(config);
    std::vector<uint16_t> numbers;
    const AdapterShape model = AdapterShapeOf(config);
    const uint32_t slots = model.slots(0);
    std::vector<LowRankMatrix> matrices(size_t{config.layers} * slots + model.slots(config.layers));
    struct Offsets {
      size_t a, b;
    };
    std::vector<Offsets> offsets(matrices.size());
    for (uint32_t layer = 0; layer < weights.layers.size(); ++layer) {
      for (uint32_t slot = 0; slot < weights.layers[layer].size(); ++slot) {
        const LowRank& part = weights.layers[layer][slot];
        if (part.rank == 0) continue;
        const AdapterTarget target = model.TargetAt(layer, slot);
        parts_.Add(target, config.moe.experts > 0);
        const size_t at = size_t{layer} * slots + slot;
        matrices[at] = {.rank = part.rank, .scale = part.scale};
        offsets[at].a = numbers.size();
        AppendA(part, target, config, shape, numbers);
        offsets[at].b = numbers.size();
        for (const float number : part.b) numbers.push_back(FloatToBFloat(number));
        numbers.resize((numbers.size() + 7) / 8 * 8);  // rows of A begin at multiples of 16 bytes
      }
    }
    const Stream stream = MakeStream();
    const Result<void*> data = memory_.Take(numbers.size() * sizeof(uint16_t), "an adapter");
    const Result<void*> table = memory_.Take(matrices.size() * sizeof(LowRankMatrix), "an adapter");
    if (data && table) {
      for (size_t i = 0; i < matrices.size(); ++i) {
        if (matrices[i].rank == 0) continue;
        matrices[i].a = static_cast<const uint16_t*>(*data) + offsets[i].a;
        matrices[i].b = static_cast<const uint16_t*>(*data) + offsets[i].b;
      }
      CopyIn(*data, numbers.data(), numbers.size() * sizeof(uint16_t), stream);
      CopyIn(*table, matrices.data(), matrices.size() * sizeof(LowRankMatrix), stream);
      Synchronize(stream);
      matrices_ = reinterpret_cast<uint64_t>(*table);
    }
    DestroyStream(stream);
    if (!data) return std::unexpected(data.error());
    if (!table) return std::unexpected(table.error());
    if (const std::string error = TakeError(); !error.empty()) {
      return Fail(Code::kInternal, "an adapter could not be copied to the device: {}", error);
    }
    return {};
  }

 private:
  // The columns of A are those of the product's input, padding included.
  static void AppendA(const LowRank& part, AdapterTarget target, const ModelConfig& config,
                      const DeviceShape& shape, std::vector<uint16_t>& numbers) {
    const size_t in = part.a.size() / part.rank;
    size_t stride = config.hidden_size;
    if (target == AdapterTarget::kO) stride = shape.q_size;
    if (target == AdapterTarget::kDown) stride = shape.ffn_stride;
    if (target == AdapterTarget::kEmbedding) stride = config.vocab_size;
    const size_t first = numbers.size();
    numbers.resize(first + stride * part.rank);
    for (size_t i = 0; i < part.a.size(); ++i) {
      size_t column = i % in;
      if (target == AdapterTarget::kO) {
        column = column / config.head_dim * shape.head_stride + column % config.head_dim;
      }
      numbers[first + i / in * stride + column] = FloatToBFloat(part.a[i]);
    }
  }

  DeviceMemory memory_;
  uint64_t matrices_ = 0;
  AdapterParts parts_;
};

}  // namespace

Result<std::shared_ptr<const StepAdapter>> MakeDeviceAdapter(const AdapterWeights& weights,
                                                             const ModelConfig& config) {
  auto adapter = std::make_shared<CudaAdapter>();
  PIE_RETURN_IF_ERROR(adapter->Load(weights, config));
  return adapter;
}

}  // namespace pie::cuda
