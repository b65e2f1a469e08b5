#include "backend/cuda/kernels/product.h"

#include <fmt/format.h>

#include "backend/cuda/kernels/blas.h"
#include "backend/cuda/kernels/layer.h"
#include "backend/cuda/kernels/testing.h"

namespace pie::cuda {
namespace {

class ProductTest : public OnDevice {};

float Silu(float x, float u) {
  return x / (1 + std::exp(-x)) * u;
}

// [rows, n] in double.
std::vector<float> Oracle(const std::vector<uint16_t>& w, const std::vector<uint16_t>& x,
                          uint32_t n, uint32_t k, uint32_t rows) {
  return ProductOf(w, Float, x, n, k, rows);
}

TEST_F(ProductTest, EveryNumberOfRowsAndShape) {
  const std::pair<uint32_t, uint32_t> shapes[] = {{53, 24}, {48, 8}, {64, 1032}, {160, 4096}};
  for (const auto& [n, k] : shapes) {
    const auto w = RandomBFloats(size_t{n} * k, 1);
    for (const uint32_t rows : {1, 2, 3, 8, 9, 16, 17, 33, 70}) {
      const auto x = RandomBFloats(size_t{rows} * k, 2 + rows);
      const auto before = RandomFloats(size_t{rows} * n, 3);
      const auto expected = Oracle(w, x, n, k, rows);
      const DeviceArray device_w(w, stream_);
      const DeviceArray device_x(x, stream_);
      const DeviceArray y(before, stream_);
      Product product{.w = device_w.data(),
                      .x = device_x.data(),
                      .y = y.data(),
                      .n = n,
                      .k = k,
                      .rows = rows,
                      .x_stride = k,
                      .y_stride = n};
      RunProduct(product, stream_);
      EXPECT_LT(Distance(y.Read(), expected), 1e-5) << n << " × " << k << ", " << rows << " rows";
      product.output = ProductOutput::kAdd;
      RunProduct(product, stream_);
      std::vector<float> twice = expected;
      for (float& value : twice) value *= 2;
      EXPECT_LT(Distance(y.Read(), twice), 1e-5) << n << " × " << k << ", " << rows << " rows";
    }
  }
}

TEST_F(ProductTest, GateAndUpInOneMatrix) {
  constexpr uint32_t kFfn = 40;
  constexpr uint32_t kK = 136;
  const auto w = RandomBFloats(size_t{2 * kFfn} * kK, 1);
  for (const uint32_t rows : {1, 5, 12, 40}) {
    const auto x = RandomBFloats(size_t{rows} * kK, 2);
    const auto sums = Oracle(w, x, 2 * kFfn, kK, rows);
    std::vector<float> expected(size_t{rows} * kFfn);
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t j = 0; j < kFfn; ++j) {
        const float* const row = &sums[size_t{r} * 2 * kFfn];
        expected[size_t{r} * kFfn + j] = Silu(row[j / 8 * 16 + j % 8], row[j / 8 * 16 + 8 + j % 8]);
      }
    }
    const DeviceArray device_w(w, stream_);
    const DeviceArray device_x(x, stream_);
    const DeviceArray y(std::vector<uint16_t>(size_t{rows} * kFfn), stream_);
    RunProduct({.w = device_w.data(),
                .x = device_x.data(),
                .y = y.data(),
                .n = 2 * kFfn,
                .k = kK,
                .rows = rows,
                .x_stride = kK,
                .y_stride = kFfn,
                .output = ProductOutput::kGated},
               stream_);
    std::vector<float> got;
    for (const uint16_t value : y.Read()) got.push_back(Float(value));
    EXPECT_LT(Distance(got, expected), 4e-3) << rows;
  }
}

TEST_F(ProductTest, RowsOfDifferentExperts) {
  constexpr uint32_t kN = 24;
  constexpr uint32_t kK = 64;
  const auto w = RandomBFloats(size_t{3} * kN * kK, 1);
  const auto x = RandomBFloats(size_t{4} * kK, 2);
  const auto bias = RandomFloats(size_t{3} * kN, 3);
  const std::vector<ExpertTile> tiles = {{0, 0, 2}, {2, 2, 3}};
  const std::vector<uint32_t> from = {3, 1, 0, 1, 2};
  const DeviceArray device_w(w, stream_);
  const DeviceArray device_x(x, stream_);
  const DeviceArray device_bias(bias, stream_);
  const DeviceArray device_tiles(tiles, stream_);
  const DeviceArray count(std::vector<uint32_t>{2}, stream_);
  const DeviceArray rows(from, stream_);
  const DeviceArray y(std::vector<float>(5 * kN), stream_);
  Product product{.w = device_w.data(),
                  .x = device_x.data(),
                  .y = y.data(),
                  .n = kN,
                  .k = kK,
                  .rows = 5,
                  .x_stride = kK,
                  .y_stride = kN};
  product.bias = device_bias.data();
  product.tiles = device_tiles.data();
  product.tile_count = count.data();
  product.max_tiles = 4;
  product.x_rows = rows.data();
  RunProduct(product, stream_);
  const auto got = y.Read();
  for (uint32_t i = 0; i < 5; ++i) {
    const uint32_t expert = i < 2 ? 0 : 2;
    const std::vector<uint16_t> own_w(w.begin() + expert * kN * kK,
                                      w.begin() + (expert + 1) * kN * kK);
    const std::vector<uint16_t> own_x(x.begin() + from[i] * kK, x.begin() + (from[i] + 1) * kK);
    auto expected = Oracle(own_w, own_x, kN, kK, 1);
    for (uint32_t j = 0; j < kN; ++j) expected[j] += bias[expert * kN + j];
    EXPECT_LT(Distance({got.begin() + i * kN, got.begin() + (i + 1) * kN}, expected), 1e-5) << i;
  }
}

TEST_F(ProductTest, BlasComputesTheSame) {
  std::string why;
  const auto blas = Blas::Load(&why);
  if (blas == nullptr) GTEST_SKIP() << why;
  constexpr uint32_t kN = 256;
  constexpr uint32_t kK = 512;
  constexpr uint32_t kRows = 40;
  const auto w = RandomBFloats(size_t{kN} * kK, 1);
  const auto x = RandomBFloats(size_t{kRows} * kK, 2);
  auto expected = Oracle(w, x, kN, kK, kRows);
  const DeviceArray device_w(w, stream_);
  const DeviceArray device_x(x, stream_);
  const DeviceArray y(std::vector<float>(size_t{kRows} * kN), stream_);
  BlasProduct product{.w = device_w.data(),
                      .x = device_x.data(),
                      .y = y.data(),
                      .n = kN,
                      .k = kK,
                      .rows = kRows,
                      .y_stride = kN,
                      .to_float = true};
  ASSERT_TRUE(blas->Run(product, stream_));
  EXPECT_LT(Distance(y.Read(), expected), 1e-5);
  product.add = true;
  ASSERT_TRUE(blas->Run(product, stream_));
  for (float& value : expected) value *= 2;
  EXPECT_LT(Distance(y.Read(), expected), 1e-5);
}

// Prints the bandwidth at which the weights are read.
TEST_F(ProductTest, Speed) {
  struct Shape {
    const char* name;
    uint32_t n, k;
  };
  for (const Shape& shape : {Shape{"qkv", 6144, 4096}, Shape{"o", 4096, 4096},
                             Shape{"gate_up", 28672, 4096}, Shape{"down", 4096, 14336}}) {
    constexpr uint32_t kMatrices = 8;
    const uint64_t bytes = uint64_t{shape.n} * shape.k * 2;
    void* const w = Allocate(bytes * kMatrices);
    const DeviceArray x(RandomBFloats(size_t{64} * shape.k, 1), stream_);
    const DeviceArray y(std::vector<float>(size_t{64} * shape.n), stream_);
    ASSERT_NE(w, nullptr);
    Fill(w, 0x11, bytes * kMatrices, stream_);
    for (const uint32_t rows : {1, 8, 64}) {
      const auto run = [&] {
        for (uint32_t i = 0; i < kMatrices; ++i) {
          RunProduct({.w = static_cast<char*>(w) + i * bytes,
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
      const double seconds = SecondsOf(run, 8, stream_) / kMatrices;
      fmt::print("{:>8} {:>2} rows: {:6.1f} µs, {:.2f} TB/s\n", shape.name, rows, seconds * 1e6,
                 static_cast<double>(bytes) / seconds / 1e12);
    }
    Free(w);
  }
}

}  // namespace
}  // namespace pie::cuda
