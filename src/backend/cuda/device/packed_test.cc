// Packed matrices of every kind: unpacking one gives the numbers that were put in, and so do
// products, compared with model/dequantize.h in double.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/cuda/device/gguf_testing.h"
#include "backend/cuda/device/matrix_builder.h"
#include "backend/cuda/kernels/layer.h"
#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/testing.h"
#include "model/dequantize.h"
#include "model/fp8.h"

namespace pie::cuda {
namespace {

constexpr DType kTypes[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                            DType::kQ4_K, DType::kQ6_K, DType::kF8E4M3};

// A tensor with random weights, and their values.
struct Source {
  Source(DType dtype, uint64_t rows, uint64_t columns, uint64_t seed)
      : bytes(RandomBlocks(dtype, rows, columns, seed)), numbers(rows * columns) {
    tensor = {.name = "w",
              .dtype = dtype,
              .shape = {rows, columns},
              .data = std::as_bytes(std::span(bytes))};
    EXPECT_TRUE(Dequantize(dtype, tensor.data, numbers));
    if (dtype != DType::kF8E4M3) return;
    scales.block_rows = scales.block_columns = 128;
    scales.across = (columns + 127) / 128;
    scales.values = RandomFloats((rows + 127) / 128 * scales.across, seed, 0.01F);
    for (uint64_t i = 0; i < numbers.size(); ++i) {
      numbers[i] *= scales.Of(i / columns, i % columns);
    }
  }

  std::string bytes;
  Tensor tensor;
  Fp8Scales scales;
  std::vector<float> numbers;
};

class PackedTest : public OnDevice {
 protected:
  // On the device.
  struct Matrix {
    Matrix(const MatrixBuilder& from, Stream stream)
        : kind(from.kind()), data(Copy(from.data()), stream), scales(Copy(from.scales()), stream) {}
    static std::vector<std::byte> Copy(std::span<const std::byte> bytes) {
      return {bytes.begin(), bytes.end()};
    }
    WeightKind kind;
    DeviceArray<std::byte> data;
    DeviceArray<std::byte> scales;
  };

  static void Put(
      MatrixBuilder& matrix, const Source& source,
      const MatrixBuilder::Place& row = [](uint64_t i) { return i; }) {
    const Status put = matrix.Put(source.tensor, &source.scales, 0, source.tensor.shape[0], row);
    EXPECT_TRUE(put) << put.error().text;
  }

  std::vector<float> Unpacked(const Matrix& matrix, uint32_t n, uint32_t k) {
    const DeviceArray out(std::vector<uint16_t>(size_t{n} * k, 0x7FC0), stream_);
    RunUnpack(matrix.kind, matrix.data.data(), matrix.scales.data(), n, k, out.data(), stream_);
    std::vector<float> numbers;
    for (const uint16_t number : out.Read()) numbers.push_back(Float(number));
    return numbers;
  }
};

std::vector<float> Times(const std::vector<float>& w, const std::vector<uint16_t>& x, uint32_t n,
                         uint32_t k, uint32_t rows) {
  return ProductOf(w, [](float number) { return number; }, x, n, k, rows);
}

TEST_F(PackedTest, UnpackingGivesTheNumbersOfTheFile) {
  for (const DType dtype : kTypes) {
    const bool large = InfoOf(dtype).block_elements == 256;
    const uint32_t n = 139;  // not a whole number of tiles
    const uint32_t k = large ? 512 : dtype == DType::kF8E4M3 ? 328 : 352;
    const Source source(dtype, n, k, 5);
    MatrixBuilder builder(*KindFor(dtype), n, k);
    Put(builder, source);
    const Matrix matrix(builder, stream_);
    // Rounded to bfloat16, as the numbers themselves; two products of scales are rounded to F16.
    const auto got = Unpacked(matrix, n, k);
    EXPECT_LT(Distance(got, source.numbers), 2.5e-3) << NameOf(dtype);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], source.numbers[i], 0.006F * std::abs(source.numbers[i]) + 2e-3F)
          << NameOf(dtype) << ", number " << i;
    }
  }
}

// Scales are applied to sums in float, so products are closer than numbers in bfloat16 would be.
TEST_F(PackedTest, ProductsOfEveryNumberOfRows) {
  for (const DType dtype : kTypes) {
    const bool large = InfoOf(dtype).block_elements == 256;
    const uint32_t n = 40;
    const uint32_t k = large ? 1536 : dtype == DType::kF8E4M3 ? 1160 : 1184;  // more than 8 spans
    const Source source(dtype, n, k, 6);
    MatrixBuilder builder(*KindFor(dtype), n, k);
    Put(builder, source);
    const Matrix matrix(builder, stream_);
    for (const uint32_t rows : {1, 9, 37}) {
      const auto x = RandomBFloats(size_t{rows} * k, 7 + rows);
      const auto expected = Times(source.numbers, x, n, k, rows);
      const DeviceArray device_x(x, stream_);
      const DeviceArray y(std::vector<float>(expected.size(), NAN), stream_);
      Product product{.w = matrix.data.data(),
                      .kind = matrix.kind,
                      .scales = matrix.scales.data(),
                      .x = device_x.data(),
                      .y = y.data(),
                      .n = n,
                      .k = k,
                      .rows = rows,
                      .x_stride = k,
                      .y_stride = n};
      RunProduct(product, stream_);
      const bool exact = dtype != DType::kQ4_K && dtype != DType::kQ6_K;
      EXPECT_LT(Distance(y.Read(), expected), exact ? 1e-5 : 1e-3) << NameOf(dtype) << ", " << rows;
      product.output = ProductOutput::kAdd;
      RunProduct(product, stream_);
      std::vector<float> twice = expected;
      for (float& value : twice) value *= 2;
      EXPECT_LT(Distance(y.Read(), twice), exact ? 1e-5 : 1e-3) << NameOf(dtype) << ", " << rows;
    }
  }
}

TEST_F(PackedTest, ExpertsGatesAndBiases) {
  constexpr uint32_t kN = 32;  // gate and up of 16
  constexpr uint32_t kK = 64;
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_1}) {
    const Source source(dtype, 3 * kN, kK, 8);
    MatrixBuilder builder(*KindFor(dtype), kN, kK, 3);
    Put(builder, source);
    const Matrix matrix(builder, stream_);
    const auto x = RandomBFloats(size_t{4} * kK, 2);
    const auto bias = RandomFloats(size_t{3} * kN, 3);
    const std::vector<uint32_t> from = {3, 1, 0, 1, 2};
    const DeviceArray device_x(x, stream_);
    const DeviceArray device_bias(bias, stream_);
    const DeviceArray tiles(std::vector<ExpertTile>{{0, 0, 2}, {2, 2, 3}}, stream_);
    const DeviceArray count(std::vector<uint32_t>{2}, stream_);
    const DeviceArray rows(from, stream_);
    const DeviceArray y(std::vector<uint16_t>(5 * kN / 2, 0x7FC0), stream_);
    RunProduct({.w = matrix.data.data(),
                .kind = matrix.kind,
                .scales = matrix.scales.data(),
                .x = device_x.data(),
                .y = y.data(),
                .n = kN,
                .k = kK,
                .rows = 5,
                .x_stride = kK,
                .y_stride = kN / 2,
                .output = ProductOutput::kGated,
                .bias = device_bias.data(),
                .tiles = tiles.data(),
                .tile_count = count.data(),
                .max_tiles = 4,
                .x_rows = rows.data()},
               stream_);
    const auto got = y.Read();
    for (uint32_t i = 0; i < 5; ++i) {
      const uint32_t expert = i < 2 ? 0 : 2;
      const auto sums =
          Times(source.numbers, {x.begin() + from[i] * kK, x.begin() + (from[i] + 1) * kK}, 3 * kN,
                kK, 1);
      for (uint32_t j = 0; j < kN / 2; ++j) {
        const uint32_t gate_at = expert * kN + j / 8 * 16 + j % 8;
        const float gate = sums[gate_at] + bias[gate_at];
        const float up = sums[gate_at + 8] + bias[gate_at + 8];
        const float expected = gate / (1 + std::exp(-gate)) * up;
        EXPECT_NEAR(Float(got[i * kN / 2 + j]), expected, 0.01F * std::abs(expected) + 1e-3F)
            << NameOf(dtype) << ", row " << i << ", " << j;
      }
    }
  }
}

TEST_F(PackedTest, RowsOfAnEmbedding) {
  for (const DType dtype : kTypes) {
    const uint32_t hidden = 256;
    const Source source(dtype, 30, hidden, 9);
    MatrixBuilder builder(*KindFor(dtype), 30, hidden);
    Put(builder, source);
    const Matrix matrix(builder, stream_);
    std::vector<std::byte> bytes(sizeof(StepHeader) + 64);
    StepHeader header{};
    header.rows = 2;
    header.tokens = sizeof header;
    header.sources = sizeof header + 16;
    header.positions = sizeof header + 32;
    const uint32_t tokens[2] = {29, 3};
    const uint32_t sources[2] = {kNone, kNone};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + header.tokens, tokens, sizeof tokens);
    std::memcpy(bytes.data() + header.sources, sources, sizeof sources);
    const DeviceArray step(bytes, stream_);
    const DeviceArray x(std::vector<float>(2 * hidden, NAN), stream_);
    RunEmbedding({.step = reinterpret_cast<const StepHeader*>(step.data()),
                  .table = matrix.data.data(),
                  .kind = matrix.kind,
                  .scales = matrix.scales.data(),
                  .x = x.data(),
                  .rows = 2,
                  .hidden = hidden,
                  .vocab = 30,
                  .scale = 2},
                 stream_);
    std::vector<float> expected;
    for (const uint32_t token : tokens) {
      for (uint32_t i = 0; i < hidden; ++i) {
        expected.push_back(source.numbers[size_t{token} * hidden + i] * 2);
      }
    }
    EXPECT_LT(Distance(x.Read(), expected), 1e-3) << NameOf(dtype);
  }
}

// From bfloat16, with a scale for each row and 128 columns.
TEST_F(PackedTest, NumbersAreRoundedToFp8) {
  constexpr uint32_t kN = 20;
  constexpr uint32_t kK = 200;
  std::vector<float> numbers = RandomFloats(kN * kK, 4);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] *= i / kK % 2 == 0 ? 1e-6F : 1e3F;
    if (i % kK >= 128) numbers[i] *= 30;
    if (i / kK == 7) numbers[i] = 0;
  }
  MatrixBuilder builder(WeightKind::kFp8, kN, kK);
  builder.PutFloats(numbers, kN, [](uint64_t i) { return kN - 1 - i; });
  const auto got = Unpacked(Matrix(builder, stream_), kN, kK);
  for (uint32_t i = 0; i < kN * kK; ++i) {
    const float expected = numbers[(kN - 1 - i / kK) * kK + i % kK];
    const float unit = (i / kK % 2 == 1 ? 1e-6F : 1e3F) * (i % kK >= 128 ? 30.0F : 1.0F);
    // Half of the last place of 4 bits, and of the smallest number; and bfloat16.
    EXPECT_NEAR(got[i], expected, std::abs(expected) * 0.067F + unit * 0x1p-9F / 448) << i;
  }
}

TEST_F(PackedTest, NumbersThatCannotBeAreRefused) {
  Source source(DType::kF8E4M3, 2, 64, 1);
  source.bytes[70] = 0x7F;
  source.tensor.data = std::as_bytes(std::span(source.bytes));
  MatrixBuilder fp8(WeightKind::kFp8, 2, 64);
  const auto place = [](uint64_t i) { return i; };
  const Status nan = fp8.Put(source.tensor, &source.scales, 0, 2, place);
  ASSERT_FALSE(nan);
  EXPECT_EQ(nan.error().text, "number 6 of row 1 is NaN; is the file damaged?");
  Source blocks(DType::kQ4_K, 1, 256, 1);
  const uint16_t large = 0x7BFF;  // 65504, times a scale of up to 63
  std::memcpy(blocks.bytes.data(), &large, 2);
  blocks.bytes[4] = 2;
  blocks.tensor.data = std::as_bytes(std::span(blocks.bytes));
  MatrixBuilder four(WeightKind::kInt4Min, 1, 256);
  const Status range = four.Put(blocks.tensor, nullptr, 0, 1, place);
  ASSERT_FALSE(range);
  EXPECT_EQ(range.error().text, "a scale of Q4_K exceeds the range of F16; is the file damaged?");
}

// Prints the bandwidth at which the weights are read.
TEST_F(PackedTest, Speed) {
  struct Shape {
    const char* name;
    uint32_t n, k;
  };
  for (const WeightKind kind : {WeightKind::kFp8, WeightKind::kInt8, WeightKind::kInt4,
                                WeightKind::kInt4Min, WeightKind::kInt6}) {
    for (const Shape& shape :
         {Shape{"qkv", 6144, 4096}, Shape{"gate_up", 28672, 4096}, Shape{"down", 4096, 14336}}) {
      constexpr uint32_t kMatrices = 8;
      const uint64_t tiles = TilesOf(shape.n, shape.k);
      const uint64_t bytes = tiles * TileBytes(kind);
      const uint64_t scale_bytes = tiles * kTileRows * ScaleBytes(kind);
      void* const w = Allocate(bytes * kMatrices);
      void* const scales = Allocate(scale_bytes * kMatrices);
      ASSERT_TRUE(w != nullptr && scales != nullptr);
      Fill(w, 0x11, bytes * kMatrices, stream_);
      Fill(scales, 0x11, scale_bytes * kMatrices, stream_);
      const DeviceArray x(RandomBFloats(size_t{64} * shape.k, 1), stream_);
      const DeviceArray y(std::vector<float>(size_t{64} * shape.n), stream_);
      for (const uint32_t rows : {1, 8, 32, 64}) {
        const auto run = [&] {
          for (uint32_t i = 0; i < kMatrices; ++i) {
            RunProduct({.w = static_cast<char*>(w) + i * bytes,
                        .kind = kind,
                        .scales = static_cast<char*>(scales) + i * scale_bytes,
                        .x = x.data(),
                        .y = y.data(),
                        .n = shape.n,
                        .k = shape.k,
                        .rows = rows,
                        .x_stride = shape.k,
                        .y_stride = shape.n},
                       stream_);
          }
        };
        const double seconds = SecondsOf(run, 4, stream_) / kMatrices;
        fmt::print("kind {} {:>8} {:>2} rows: {:6.1f} µs, {:.2f} TB/s\n", static_cast<int>(kind),
                   shape.name, rows, seconds * 1e6,
                   static_cast<double>(bytes + scale_bytes) / seconds / 1e12);
      }
      Free(w);
      Free(scales);
    }
  }
}

}  // namespace
}  // namespace pie::cuda
