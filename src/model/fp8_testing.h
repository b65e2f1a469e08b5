// For tests: a Hugging Face folder whose matrices are stored in fp8, as several tools publish it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/dequantize.h"
#include "model/fp8.h"
#include "model/half.h"
#include "model/safetensors.h"

namespace pie {

// Which weights share a scale, and how the scales are stored.
struct Fp8Form {
  const char* name;
  const char* scales;  // the end of their tensor's name
  uint64_t block_rows;
  uint64_t block_columns;  // 0: the whole tensor or row
  DType dtype = DType::kF32;
};
inline constexpr Fp8Form kFp8Forms[] = {
    {"blocks", "_scale_inv", 16, 128},        // DeepSeek, Qwen; theirs are 128 × 128
    {"narrow_blocks", "_scale_inv", 16, 16},  // no device keeps these as they are
    {"tensors", "_scale", 0, 0},              // AutoFP8, ModelOpt
    {"inverse_tensors", "_scale_inv", 0, 0},  // Mistral
    {"rows", "_scale", 1, 0, DType::kBF16},   // llm-compressor, Meta
};

class Fp8Model {
 public:
  // Converts the matrices of the layers of `from`. plain() has their values.
  Fp8Model(const std::filesystem::path& from, const Fp8Form& form) : form_(form) {
    namespace fs = std::filesystem;
    folder_ = fs::path(testing::TempDir()) / ("fp8_model" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(stored());
    fs::create_directories(plain());
    std::ifstream file(from / "config.json");
    nlohmann::json config = nlohmann::json::parse(file);
    std::ofstream(plain() / "config.json") << config;
    config["quantization_config"] = {{"quant_method", "fp8"}, {"activation_scheme", "static"}};
    if (form.block_columns != 0) {
      config["quantization_config"]["weight_block_size"] = {form.block_rows, form.block_columns};
    }
    std::ofstream(stored() / "config.json") << config;
    const auto weights = Safetensors::Open(from);
    EXPECT_TRUE(weights) << weights.error().text;
    Tensors as_fp8;
    Tensors as_bf16;
    for (const Tensor& tensor : weights->tensors().all()) {
      if (IsMatrix(tensor)) {
        Convert(tensor, as_fp8, as_bf16);
      } else {
        for (Tensors* const to : {&as_fp8, &as_bf16}) {
          to->push_back(
              {tensor.name, tensor.dtype, tensor.shape, {tensor.data.begin(), tensor.data.end()}});
        }
      }
    }
    EXPECT_LT(weights->tensors().size(), as_fp8.size());
    Write(as_fp8, stored());
    Write(as_bf16, plain());
  }
  ~Fp8Model() { std::filesystem::remove_all(folder_); }
  Fp8Model(const Fp8Model&) = delete;
  Fp8Model& operator=(const Fp8Model&) = delete;

  std::filesystem::path stored() const { return folder_ / "fp8"; }
  // The same weights, multiplied with their scales and rounded to bfloat16.
  std::filesystem::path plain() const { return folder_ / "bf16"; }

 private:
  struct Written {
    std::string name;
    DType dtype;
    std::vector<uint64_t> shape;
    std::vector<std::byte> data;
  };
  using Tensors = std::vector<Written>;

  // The value to which the largest number of a block is scaled. With 448, the scales of the golden
  // models would be powers of two, and every product with them exact.
  static constexpr float kLargest = 300;

  static bool IsMatrix(const Tensor& tensor) {
    return tensor.name.find("layers.") != std::string::npos && tensor.name.ends_with(".weight") &&
           tensor.shape.size() == 2 && !tensor.name.ends_with(".gate.weight");
  }

  void Convert(const Tensor& tensor, Tensors& as_fp8, Tensors& as_bf16) const {
    const uint64_t rows = tensor.shape[0];
    const uint64_t columns = tensor.shape[1];
    const uint64_t high = form_.block_rows == 0 ? rows : form_.block_rows;
    const uint64_t wide = form_.block_columns == 0 ? columns : form_.block_columns;
    const uint64_t down = (rows + high - 1) / high;
    const uint64_t across = (columns + wide - 1) / wide;
    std::vector<float> numbers(rows * columns);
    EXPECT_TRUE(Dequantize(tensor.dtype, tensor.data, numbers));
    std::vector<float> scales(down * across);
    for (uint64_t i = 0; i < numbers.size(); ++i) {
      float& scale = scales[i / columns / high * across + i % columns / wide];
      scale = std::max(scale, std::abs(numbers[i]) / kLargest);
    }
    Written packed{tensor.name, DType::kF8E4M3, tensor.shape, {}};
    Written unpacked{tensor.name, DType::kBF16, tensor.shape, {}};
    Written stored{tensor.name + form_.scales, form_.dtype, {down, across}, {}};
    if (down * across == 1) stored.shape = {};
    for (float& scale : scales) {
      if (form_.dtype == DType::kBF16) scale = BFloatToFloat(FloatToBFloat(scale));
      const uint16_t half = FloatToBFloat(scale);
      Append(stored.data, form_.dtype == DType::kBF16 ? static_cast<const void*>(&half) : &scale,
             form_.dtype == DType::kBF16 ? sizeof half : sizeof scale);
    }
    for (uint64_t i = 0; i < numbers.size(); ++i) {
      const float scale = scales[i / columns / high * across + i % columns / wide];
      const uint8_t bits = FloatToE4m3(scale == 0 ? 0 : numbers[i] / scale);
      const uint16_t worth = FloatToBFloat(E4m3ToFloat(bits) * scale);
      Append(packed.data, &bits, sizeof bits);
      Append(unpacked.data, &worth, sizeof worth);
    }
    const float hint = 1;
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    Written input{module + ".input_scale", DType::kF32, {}, {}};
    Append(input.data, &hint, sizeof hint);
    for (Written* const written : {&packed, &stored, &input}) {
      as_fp8.push_back(std::move(*written));
    }
    as_bf16.push_back(std::move(unpacked));
  }

  static void Append(std::vector<std::byte>& to, const void* from, size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(from);
    to.insert(to.end(), begin, begin + bytes);
  }

  static void Write(const Tensors& tensors, const std::filesystem::path& folder) {
    nlohmann::json header = nlohmann::json::object();
    uint64_t at = 0;
    for (const Written& tensor : tensors) {
      header[tensor.name] = {{"dtype", NameOf(tensor.dtype)},
                             {"shape", tensor.shape},
                             {"data_offsets", {at, at + tensor.data.size()}}};
      at += tensor.data.size();
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::ofstream file(folder / "model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << text;
    for (const Written& tensor : tensors) {
      file.write(reinterpret_cast<const char*>(tensor.data.data()),
                 static_cast<std::streamsize>(tensor.data.size()));
    }
  }

  const Fp8Form form_;
  std::filesystem::path folder_;
};

}  // namespace pie
