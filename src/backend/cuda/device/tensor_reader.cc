#include "backend/cuda/device/tensor_reader.h"

namespace pie::cuda {

Status TensorReader::Put(MatrixBuilder& matrix, const Tensor& tensor, uint64_t first,
                         uint64_t count, const MatrixBuilder::Place& row,
                         const MatrixBuilder::Place& column) {
  if (const Status status = matrix.Put(tensor, first, count, row, column); !status) {
    return BadTensor(tensor, status.error());
  }
  const uint64_t rows = tensor.elements() / tensor.shape.back();
  const uint64_t row_bytes = tensor.data.size() / rows;
  Done(tensor.data.subspan(first * row_bytes, count * row_bytes));
  return {};
}

// Folders may hold more than a language model, so only the layers are checked there. Rotary
// frequencies follow from the configuration.
Status TensorReader::CheckUnused(const WeightNames& names) const {
  const std::string prefix =
      names.everything_is_known ? "" : names.layer.substr(0, names.layer.find("{}"));
  for (const Tensor* const tensor : Unused(prefix)) {
    const std::string& name = tensor->name;
    if (name.starts_with("rope_") || name.find("rotary_emb") != name.npos) continue;
    return BadTensor(*tensor,
                     {Code::kUnavailable,
                      "this architecture has no such tensor; either the file is broken, or "
                      "it is a variant of the architecture that is not supported"});
  }
  return {};
}

}  // namespace pie::cuda
