#include "backend/cuda/kernels/streamed_product.h"

#include <fmt/format.h>

#include "backend/cuda/kernels/blas.h"
#include "backend/cuda/kernels/layer.h"
#include "backend/cuda/kernels/random_fill.h"
#include "backend/cuda/kernels/testing.h"

namespace pie::cuda {
namespace {

class StreamedProductTest : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (stream_ == nullptr) return;
    products_ = StreamedProducts::Make(14336);
    if (products_ == nullptr) GTEST_SKIP() << "the device is no Hopper";
  }

  std::unique_ptr<StreamedProducts> products_;
};

// Shapes whose rows and columns are no multiples of a tile's, tiles of several blocks and blocks of
// several tiles.
TEST_F(StreamedProductTest, EveryNumberOfRowsAndShape) {
  const std::pair<uint32_t, uint32_t> shapes[] = {{53, 24}, {40, 1096}, {600, 136}};
  for (const auto& [n, k] : shapes) {
    const auto w = RandomBFloats(size_t{n} * k, 1);
    for (const uint32_t rows : {1, 9, 16, 17, 33, 64, 65, 128, 131, 259}) {
      const auto x = RandomBFloats(size_t{rows} * k, 2 + rows);
      const auto before = RandomFloats(size_t{rows} * n, 3);
      const auto bias = RandomFloats(n, 4);
      const auto expected = ProductOf(w, Float, x, n, k, rows);
      const DeviceArray device_w(w, stream_);
      const DeviceArray device_x(x, stream_);
      const DeviceArray device_bias(bias, stream_);
      for (const uint32_t tile : StreamedProducts::kTiles) {
        const DeviceArray y(before, stream_);
        Product product{.w = device_w.data(),
                        .x = device_x.data(),
                        .y = y.data(),
                        .n = n,
                        .k = k,
                        .rows = rows,
                        .x_stride = k,
                        .y_stride = n,
                        .bias = device_bias.data()};
        EXPECT_EQ(products_->Takes(product, tile), tile == 128 || rows <= 128);
        if (!products_->Takes(product, tile)) continue;
        products_->Run(product, tile, stream_);
        product.bias = nullptr;
        product.output = ProductOutput::kAdd;
        products_->Run(product, tile, stream_);
        std::vector<float> twice = expected;
        for (size_t i = 0; i < twice.size(); ++i) twice[i] = 2 * twice[i] + bias[i % n];
        EXPECT_LT(Distance(y.Read(), twice), 1e-5)
            << n << " × " << k << ", " << rows << " rows, tiles of " << tile;
      }
    }
  }
}

TEST_F(StreamedProductTest, GateAndUpInOneMatrix) {
  constexpr uint32_t kFfn = 72;
  constexpr uint32_t kK = 520;
  const auto w = RandomBFloats(size_t{2 * kFfn} * kK, 1);
  for (const uint32_t rows : {12, 40, 200}) {
    const auto x = RandomBFloats(size_t{rows} * kK, 2);
    const auto sums = ProductOf(w, Float, x, 2 * kFfn, kK, rows);
    std::vector<float> expected(size_t{rows} * kFfn);
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t j = 0; j < kFfn; ++j) {
        const float* const row = &sums[size_t{r} * 2 * kFfn];
        const float gate = row[j / 8 * 16 + j % 8];
        expected[size_t{r} * kFfn + j] = gate / (1 + std::exp(-gate)) * row[j / 8 * 16 + 8 + j % 8];
      }
    }
    const DeviceArray device_w(w, stream_);
    const DeviceArray device_x(x, stream_);
    const DeviceArray y(std::vector<uint16_t>(size_t{rows} * kFfn), stream_);
    products_->Run({.w = device_w.data(),
                    .x = device_x.data(),
                    .y = y.data(),
                    .n = 2 * kFfn,
                    .k = kK,
                    .rows = rows,
                    .x_stride = kK,
                    .y_stride = kFfn,
                    .output = ProductOutput::kGated},
                   128, stream_);
    std::vector<float> got;
    for (const uint16_t value : y.Read()) got.push_back(Float(value));
    EXPECT_LT(Distance(got, expected), 4e-3) << rows;
  }
}

// A matrix in fp8 with its scales, packed, and its numbers.
struct Fp8Matrix {
  Fp8Matrix(uint32_t n, uint32_t k) : numbers(size_t{n} * k) {
    constexpr WeightKind kKind = WeightKind::kFp8;
    data.resize(TilesOf(n, k) * TileBytes(kKind));
    scales = RandomFloats(TilesOf(n, k) * kTileRows, 7, 0.01F);
    const CounterRng random{8};
    for (uint32_t row = 0; row < n; ++row) {
      for (uint32_t column = 0; column < k; ++column) {
        const size_t i = size_t{row} * k + column;
        auto bits = static_cast<uint32_t>(random.Float(i) * 254);  // no NaN
        if (bits >= 127) ++bits;
        const PackedPlace place = PlaceOf(kKind, row, column);
        const uint64_t tile = TileOf(row, column, k);
        data[tile * TileBytes(kKind) + place.byte + place.bit / 8] = static_cast<uint8_t>(bits);
        const float number =
            std::bit_cast<float>((bits & 0x7FU) << 20 | (bits & 0x80U) << 24) * 0x1p120F;
        numbers[i] = number * scales[tile * kTileRows + row % kTileRows];
      }
    }
  }

  std::vector<uint8_t> data;
  std::vector<float> scales;
  std::vector<float> numbers;
};

TEST_F(StreamedProductTest, Fp8WithScales) {
  const std::pair<uint32_t, uint32_t> shapes[] = {{53, 24}, {40, 1096}, {600, 136}};
  for (const auto& [n, k] : shapes) {
    const Fp8Matrix matrix(n, k);
    const DeviceArray w(matrix.data, stream_);
    const DeviceArray scales(matrix.scales, stream_);
    for (const uint32_t rows : {3, 16, 29, 64, 65, 131}) {
      const auto x = RandomBFloats(size_t{rows} * k, 2 + rows);
      const DeviceArray device_x(x, stream_);
      const auto expected =
          ProductOf(matrix.numbers, [](float number) { return number; }, x, n, k, rows);
      for (const uint32_t tile : StreamedProducts::kTiles) {
        const DeviceArray y(std::vector<float>(expected.size(), NAN), stream_);
        const Product product{.w = w.data(),
                              .kind = WeightKind::kFp8,
                              .scales = scales.data(),
                              .x = device_x.data(),
                              .y = y.data(),
                              .n = n,
                              .k = k,
                              .rows = rows,
                              .x_stride = k,
                              .y_stride = n};
        EXPECT_EQ(products_->Takes(product, tile), tile == 128);
        if (!products_->Takes(product, tile)) continue;
        products_->Run(product, tile, stream_);
        EXPECT_LT(Distance(y.Read(), expected), 1e-5)
            << n << " × " << k << ", " << rows << " rows, tiles of " << tile;
      }
    }
  }
}

// One launch after another uses the same memory for sums; equal launches give equal bits.
TEST_F(StreamedProductTest, LaunchesFollowOneAnother) {
  constexpr uint32_t kN = 300;
  constexpr uint32_t kK = 1000;
  constexpr uint32_t kRows = 12;
  const auto w = RandomBFloats(size_t{kN} * kK, 1);
  const auto x = RandomBFloats(size_t{kRows} * kK, 2);
  const auto expected = ProductOf(w, Float, x, kN, kK, kRows);
  const DeviceArray device_w(w, stream_);
  const DeviceArray device_x(x, stream_);
  std::vector<float> first;
  for (uint32_t i = 0; i < 6; ++i) {
    const DeviceArray y(std::vector<float>(expected.size(), NAN), stream_);
    const DeviceArray other(std::vector<uint16_t>(expected.size()), stream_);
    Product product{.w = device_w.data(),
                    .x = device_x.data(),
                    .y = y.data(),
                    .n = kN,
                    .k = kK,
                    .rows = kRows,
                    .x_stride = kK,
                    .y_stride = kN};
    products_->Run(product, 128, stream_);
    product.y = other.data();
    product.output = ProductOutput::kBf16;
    products_->Run(product, 256, stream_);
    const auto got = y.Read();
    if (i == 0) {
      first = got;
      EXPECT_LT(Distance(got, expected), 1e-5);
      std::vector<float> rounded;
      for (const uint16_t value : other.Read()) rounded.push_back(Float(value));
      EXPECT_LT(Distance(rounded, expected), 4e-3);
    }
    ASSERT_EQ(got, first) << i;
  }
}

// The products of a layer as a step launches them, each reading what the one before wrote, against
// the same ones by the kernels of product.h.
TEST_F(StreamedProductTest, Fp8LayersFollowOneAnother) {
#ifdef PIE_CUDA_EMULATED
  constexpr uint32_t kHidden = 256;
  constexpr uint32_t kFfn = 384;
  constexpr uint32_t kTimes = 1;
#else
  constexpr uint32_t kHidden = 4096;
  constexpr uint32_t kFfn = 14336;
  constexpr uint32_t kTimes = 20;
#endif
  const std::pair<uint32_t, uint32_t> shapes[] = {
      {kHidden * 3 / 2, kHidden}, {kHidden, kHidden}, {2 * kFfn, kHidden}, {kHidden, kFfn}};
  struct Matrix {
    void* data;
    float* scales;
  };
  std::vector<Matrix> matrices;
  for (const auto& [n, k] : shapes) {
    const uint64_t tiles = TilesOf(n, k);
    Matrix& matrix = matrices.emplace_back();
    matrix.data = Allocate(tiles * TileBytes(WeightKind::kFp8));
    matrix.scales = static_cast<float*>(Allocate(tiles * kTileRows * sizeof(float)));
    ASSERT_TRUE(matrix.data != nullptr && matrix.scales != nullptr);
    FillRandomFp8(matrix.data, tiles * TileBytes(WeightKind::kFp8), matrix.scales,
                  tiles * kTileRows, n, 1.7F / std::sqrt(static_cast<float>(k)), stream_);
  }
  for (const uint32_t rows : {12, 32, 64, 100}) {
    const DeviceArray x(RandomBFloats(size_t{rows} * kHidden, 5), stream_);
    const auto run = [&](uint32_t tile) {  // 0: by product.h
      const DeviceArray a(std::vector<uint16_t>(size_t{rows} * kHidden * 3 / 2), stream_);
      const DeviceArray b(std::vector<uint16_t>(size_t{rows} * kHidden), stream_);
      const DeviceArray c(std::vector<uint16_t>(size_t{rows} * kFfn), stream_);
      const DeviceArray y(std::vector<float>(size_t{rows} * kHidden, 0), stream_);
      const void* const inputs[] = {x.data(), x.data(), b.data(), c.data()};
      void* const outputs[] = {a.data(), b.data(), c.data(), y.data()};
      for (size_t i = 0; i < 4; ++i) {
        const Product product{.w = matrices[i].data,
                              .kind = WeightKind::kFp8,
                              .scales = matrices[i].scales,
                              .x = inputs[i],
                              .y = outputs[i],
                              .n = shapes[i].first,
                              .k = shapes[i].second,
                              .rows = rows,
                              .x_stride = shapes[i].second,
                              .y_stride = i == 2 ? kFfn : shapes[i].first,
                              .output = i == 3   ? ProductOutput::kAdd
                                        : i == 2 ? ProductOutput::kGated
                                                 : ProductOutput::kBf16};
        if (tile != 0 && products_->Takes(product, tile)) {
          products_->Run(product, tile, stream_);
        } else {
          RunProduct(product, stream_);
        }
      }
      return y.Read();
    };
    const std::vector<float> expected = run(0);
    std::vector<float> first;
    for (uint32_t i = 0; i < kTimes; ++i) {
      const std::vector<float> got = run(128);
      if (i == 0) first = got;
      ASSERT_LT(Distance(got, expected), 0.02) << rows << " rows, " << i;
      ASSERT_EQ(got, first) << rows << " rows, " << i;
    }
  }
  for (const Matrix& matrix : matrices) {
    Free(matrix.data);
    Free(matrix.scales);
  }
}

struct Shape {
  const char* name;
  uint32_t n, k;
  ProductOutput output;
};
constexpr Shape kLayer[] = {{"qkv", 6144, 4096, ProductOutput::kFloat},
                            {"o", 4096, 4096, ProductOutput::kAdd},
                            {"gate_up", 28672, 4096, ProductOutput::kGated},
                            {"down", 4096, 14336, ProductOutput::kAdd}};
constexpr Shape kHead = {"head", 128256, 4096, ProductOutput::kFloat};
constexpr uint32_t kSpeedRows[] = {16, 32, 64, 128, 256};

// Prints the bandwidth at which the weights of Llama 3.1 8B are read, for matrices of one shape
// that follow one another.
TEST_F(StreamedProductTest, Speed) {
  std::string why;
  const auto blas = Blas::Load(&why);
  constexpr uint64_t kMost = 256;
  void* const x = Allocate(kMost * 14336 * 2);
  void* const y = Allocate(kMost * 128256 * 4);
  void* const sums = Allocate(kMost * 28672 * 2);
  ASSERT_TRUE(x != nullptr && y != nullptr && sums != nullptr);
  FillRandom(x, kMost * 14336, 1, 1, stream_);
  Fill(y, 0, kMost * 128256 * 4, stream_);
  const auto streamed = [&](const Product& product, auto&& measure) {
    for (const uint32_t tile : StreamedProducts::kTiles) {
      if (!products_->Takes(product, tile)) continue;
      measure(fmt::format("tiles of {}", tile), [&] { products_->Run(product, tile, stream_); });
    }
  };
  const auto time = [&](const Shape& shape) {
    const uint32_t matrices = &shape == &kHead ? 2 : 8;
    const uint64_t bytes = uint64_t{shape.n} * shape.k * 2;
    char* const w = static_cast<char*>(Allocate(bytes * matrices));
    ASSERT_NE(w, nullptr);
    FillRandom(w, bytes / 2 * matrices, 2, 0.02F, stream_);
    for (const uint32_t rows : kSpeedRows) {
      const bool gated = shape.output == ProductOutput::kGated;
      Product product{.x = x,
                      .y = y,
                      .n = shape.n,
                      .k = shape.k,
                      .rows = rows,
                      .x_stride = shape.k,
                      .y_stride = gated ? shape.n / 2 : shape.n,
                      .output = shape.output};
      std::string line = fmt::format("bf16 {:>8} {:>3} rows:", shape.name, rows);
      const auto measure = [&](const std::string& name, auto&& run) {
        const double seconds = SecondsOf(
                                   [&] {
                                     for (uint32_t i = 0; i < matrices; ++i) {
                                       product.w = w + i * bytes;
                                       run();
                                     }
                                   },
                                   4, stream_) /
                               matrices;
        line += fmt::format("  {} {:6.1f} µs {:.2f} TB/s", name, seconds * 1e6,
                            static_cast<double>(bytes) / seconds / 1e12);
      };
      if (blas != nullptr) {
        std::vector<const void*> all;
        for (uint32_t i = 0; i < matrices; ++i) all.push_back(w + i * bytes);
        BlasProduct for_blas{.w = w,
                             .x = x,
                             .y = gated ? sums : y,
                             .n = shape.n,
                             .k = shape.k,
                             .rows = rows,
                             .y_stride = shape.n,
                             .to_float = !gated,
                             .add = shape.output == ProductOutput::kAdd};
        blas->Tune(for_blas, all, stream_);
        measure("cuBLASLt", [&] {
          for_blas.w = product.w;
          blas->Run(for_blas, stream_);
          if (gated) RunGate(GateKind::kSilu, sums, y, rows, shape.n / 2, stream_);
        });
      }
      streamed(product, measure);
      fmt::print("{}\n", line);
    }
    Free(w);
  };
  const auto time_fp8 = [&](const Shape& shape) {
    constexpr uint32_t kMatrices = 8;
    const uint64_t tiles = TilesOf(shape.n, shape.k);
    const uint64_t bytes = tiles * TileBytes(WeightKind::kFp8);
    const uint64_t scale_bytes = tiles * kTileRows * sizeof(float);
    char* const w = static_cast<char*>(Allocate(bytes * kMatrices));
    char* const scales = static_cast<char*>(Allocate(scale_bytes * kMatrices));
    ASSERT_TRUE(w != nullptr && scales != nullptr);
    FillRandomFp8(w, bytes * kMatrices, reinterpret_cast<float*>(scales),
                  scale_bytes / 4 * kMatrices, 3, 0.02F, stream_);
    for (const uint32_t rows : {16, 32, 64, 128}) {
      const bool gated = shape.output == ProductOutput::kGated;
      Product product{.kind = WeightKind::kFp8,
                      .x = x,
                      .y = y,
                      .n = shape.n,
                      .k = shape.k,
                      .rows = rows,
                      .x_stride = shape.k,
                      .y_stride = gated ? shape.n / 2 : shape.n,
                      .output = shape.output};
      std::string line = fmt::format("fp8  {:>8} {:>3} rows:", shape.name, rows);
      const auto measure = [&](const std::string& name, auto&& run) {
        const double seconds = SecondsOf(
                                   [&] {
                                     for (uint32_t i = 0; i < kMatrices; ++i) {
                                       product.w = w + i * bytes;
                                       product.scales = scales + i * scale_bytes;
                                       run();
                                     }
                                   },
                                   4, stream_) /
                               kMatrices;
        line += fmt::format("  {} {:6.1f} µs {:.2f} TB/s", name, seconds * 1e6,
                            static_cast<double>(bytes + scale_bytes) / seconds / 1e12);
      };
      measure("product.h", [&] { RunProduct(product, stream_); });
      streamed(product, measure);
      fmt::print("{}\n", line);
    }
    Free(w);
    Free(scales);
  };
  for (const Shape& shape : kLayer) time_fp8(shape);
  for (const Shape& shape : kLayer) time(shape);
  time(kHead);
  Free(x);
  Free(y);
  Free(sums);
}

}  // namespace
}  // namespace pie::cuda
