// Reads the experts of one layer from the three ways in which files store them (ExpertStorage),
// gpt-oss' MXFP4 blocks in safetensors included.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "backend/cuda/device/matrix_builder.h"
#include "backend/cuda/device/tensor_reader.h"
#include "base/result.h"
#include "model/config.h"
#include "model/weight_names.h"

namespace pie::cuda {

class ExpertReader {
 public:
  using PlaceOf = std::function<MatrixBuilder::Place(uint64_t expert)>;

  ExpertReader(TensorReader& reader, const ModelConfig& config, const WeightNames& names,
               uint32_t layer)
      : reader_(reader), config_(config), names_(names), layer_(layer) {}

  // The kind in which one matrix can keep these tensors of all experts as they are, or kBf16.
  WeightKind KindOf(std::initializer_list<std::string_view> names) const;
  // Reads one matrix of all experts, [rows, columns] each, and their biases if the model has them.
  // `part`: 1 for up where gate and up are one tensor. Place(expert)(row) says where a row goes.
  Status Read(std::string_view name, uint64_t part, uint64_t rows, uint64_t columns,
              MatrixBuilder& matrix, const PlaceOf& place, std::span<float> biases);

 private:
  std::string Name(std::string_view part, std::string_view kind) const {
    return names_.InLayer(layer_, part).append(kind);
  }
  // gpt-oss: row i of part p is row i × parts + p of the tensor.
  Status Interleaved(std::string_view name, uint64_t part, uint64_t parts, uint64_t rows,
                     uint64_t columns, MatrixBuilder& matrix, const PlaceOf& place,
                     std::span<float> biases);
  Result<std::vector<float>> Transposed(const Tensor& all, uint64_t expert, uint64_t part,
                                        uint64_t parts, uint64_t rows, uint64_t columns) const;
  Result<std::vector<float>> Blocks(const Tensor& bits, const Tensor& scales, uint64_t expert,
                                    uint64_t part, uint64_t parts, uint64_t rows,
                                    uint64_t columns) const;

  TensorReader& reader_;
  const ModelConfig& config_;
  const WeightNames& names_;
  const uint32_t layer_;
};

}  // namespace pie::cuda
