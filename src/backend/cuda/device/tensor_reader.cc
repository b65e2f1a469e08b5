#include "backend/cuda/device/tensor_reader.h"

namespace pie::cuda {

WeightKind TensorReader::KindOf(const Tensor& tensor, bool columns_move) {
  const std::optional<WeightKind> kind = KindFor(tensor.dtype);
  if (!kind) return WeightKind::kBf16;
  if (kind != WeightKind::kFp8) return columns_move ? WeightKind::kBf16 : *kind;
  // A packed row has one scale for each span of columns.
  const auto scales = ScalesOf(tensor);
  const bool whole = scales && scales->block_columns >= tensor.shape.back();
  const bool spans = scales && scales->block_columns % kSpan == 0 && !columns_move;
  return whole || spans ? WeightKind::kFp8 : WeightKind::kBf16;
}

Result<const Tensor*> TensorReader::FindFor(const MatrixBuilder& matrix, std::string_view name,
                                            const Shape& shape, bool columns_move) {
  const Tensor* const tensor = PIE_TRY(FindStored(name, shape));
  if (tensor->dtype != DType::kF8E4M3) return tensor;
  if (matrix.kind() == WeightKind::kFp8 && KindOf(*tensor, columns_move) == WeightKind::kFp8) {
    return tensor;
  }
  return Find(name, shape);
}

Status TensorReader::Put(MatrixBuilder& matrix, const Tensor& tensor, uint64_t first,
                         uint64_t count, const MatrixBuilder::Place& row,
                         const MatrixBuilder::Place& column) {
  Fp8Scales scales;
  if (tensor.dtype == DType::kF8E4M3) scales = PIE_TRY(ScalesOf(tensor));
  if (const Status status = matrix.Put(tensor, &scales, first, count, row, column); !status) {
    return BadTensor(tensor, status.error());
  }
  const uint64_t rows = tensor.elements() / tensor.shape.back();
  const uint64_t row_bytes = tensor.data.size() / rows;
  Done(tensor.data.subspan(first * row_bytes, count * row_bytes));
  return {};
}

}  // namespace pie::cuda
