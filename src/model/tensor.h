// Tensor: a named part of a mapped model file. It owns no data: the mapping (Gguf, Safetensors)
// must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/dtype.h"

namespace pie {

struct Tensor {
  std::string name;
  DType dtype = DType::kF32;
  // Outermost dimension first, [rows, columns], in either file format. The last dimension is
  // contiguous; quantised types divide it into blocks. Empty for a single number.
  std::vector<uint64_t> shape;
  // Exactly TensorBytes(dtype, shape) long. Aligned as in the file (GGUF: to 8 bytes or more;
  // safetensors: not at all), so read it with memcpy or unaligned loads.
  std::span<const std::byte> data;

  uint64_t elements() const {
    uint64_t count = 1;
    for (uint64_t size : shape) count *= size;
    return count;
  }
};

// The tensors of a model in the order of its files, found by name.
class TensorTable {
 public:
  // Returns false and adds nothing if the name is taken.
  bool Add(Tensor tensor) {
    if (!by_name_.emplace(tensor.name, tensors_.size()).second) return false;
    tensors_.push_back(std::move(tensor));
    return true;
  }
  const Tensor* Find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }
  std::span<const Tensor> all() const { return tensors_; }
  size_t size() const { return tensors_.size(); }

 private:
  std::vector<Tensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace pie
