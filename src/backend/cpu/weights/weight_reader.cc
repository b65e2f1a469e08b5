#include "backend/cpu/weights/weight_reader.h"

namespace pie::cpu {

WeightReader::WeightReader(const ModelFiles& files, Arena& arena, const LoadProgress& progress)
    : CheckedTensors(files, progress), arena_(arena) {}

Result<PackedMatrix> WeightReader::Pack(const Tensor& tensor, DType dtype,
                                        std::span<const std::byte> data, uint64_t rows,
                                        uint64_t columns) {
  auto packed = PackedMatrix::Pack(dtype, data, static_cast<uint32_t>(rows),
                                   static_cast<uint32_t>(columns), arena_);
  if (!packed) return BadTensor(tensor, packed.error());
  return packed;
}

Result<PackedMatrix> WeightReader::Rows(const Tensor& tensor, uint64_t first, uint64_t rows) {
  const uint64_t columns = tensor.shape.back();
  const uint64_t row_bytes = tensor.data.size() / (tensor.elements() / columns);
  const auto data = tensor.data.subspan(first * row_bytes, rows * row_bytes);
  auto packed = PIE_TRY(Pack(tensor, tensor.dtype, data, rows, columns));
  Done(data);
  return packed;
}

Result<PackedMatrix> WeightReader::Matrix(std::string_view name, uint64_t rows, uint64_t columns) {
  return Rows(*PIE_TRY(Find(name, {rows, columns})), 0, rows);
}

}  // namespace pie::cpu
