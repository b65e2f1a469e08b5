#include "backend/cuda/kernels/layer.h"

#include <fmt/format.h>

#include "backend/cuda/kernels/testing.h"

namespace pie::cuda {
namespace {

class LayerTest : public OnDevice {};

TEST_F(LayerTest, ResidualAndNorms) {
  constexpr uint32_t kRows = 3;
  for (const uint32_t hidden : {24U, 2560U}) {
    const auto x = RandomFloats(kRows * hidden, 1);
    const auto delta = RandomFloats(kRows * hidden, 2);
    const auto bias = RandomFloats(hidden, 3);
    const auto post = RandomFloats(hidden, 4);
    const auto norm = RandomFloats(hidden, 5);
    for (const bool has_post : {false, true}) {
      std::vector<float> sums(kRows * hidden);
      std::vector<float> expected(kRows * hidden);
      for (uint32_t r = 0; r < kRows; ++r) {
        const auto factor = [&](auto&& of) {
          double squares = 0;
          for (uint32_t i = 0; i < hidden; ++i) squares += of(i) * of(i);
          return 1 / std::sqrt(squares / hidden + 1e-5);
        };
        const auto added = [&](uint32_t i) { return double{delta[r * hidden + i]} + bias[i]; };
        const double after = factor(added);
        for (uint32_t i = 0; i < hidden; ++i) {
          const double add = has_post ? added(i) * after * post[i] : added(i);
          sums[r * hidden + i] = static_cast<float>(x[r * hidden + i] + add);
        }
        const double scale = factor([&](uint32_t i) { return double{sums[r * hidden + i]}; });
        for (uint32_t i = 0; i < hidden; ++i) {
          expected[r * hidden + i] = static_cast<float>(sums[r * hidden + i] * scale * norm[i]);
        }
      }
      const DeviceArray device_x(x, stream_);
      const DeviceArray device_delta(delta, stream_);
      const DeviceArray device_bias(bias, stream_);
      const DeviceArray device_post(post, stream_);
      const DeviceArray device_norm(norm, stream_);
      const DeviceArray h(std::vector<uint16_t>(kRows * hidden), stream_);
      RunResidual({.x = device_x.data(),
                   .delta = device_delta.data(),
                   .bias = device_bias.data(),
                   .post_norm = has_post ? device_post.data() : nullptr,
                   .norm = device_norm.data(),
                   .h = h.data(),
                   .rows = kRows,
                   .hidden = hidden,
                   .epsilon = 1e-5F},
                  stream_);
      EXPECT_LT(Distance(device_x.Read(), sums), 1e-6);
      std::vector<float> got;
      for (const uint16_t value : h.Read()) got.push_back(Float(value));
      EXPECT_LT(Distance(got, expected), 3e-3);
    }
  }
}

TEST_F(LayerTest, GateOfALargeProduct) {
  constexpr uint32_t kFfn = 48;
  constexpr uint32_t kRows = 5;
  const auto gate_up = RandomBFloats(size_t{kRows} * 2 * kFfn, 1, 4);
  std::vector<float> expected;
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t j = 0; j < kFfn; ++j) {
      const size_t at = size_t{r} * 2 * kFfn + j / 8 * 16 + j % 8;
      const float x = Float(gate_up[at]);
      expected.push_back(x / (1 + std::exp(-x)) * Float(gate_up[at + 8]));
    }
  }
  const DeviceArray in(gate_up, stream_);
  const DeviceArray out(std::vector<uint16_t>(size_t{kRows} * kFfn), stream_);
  RunGate(GateKind::kSilu, in.data(), out.data(), kRows, kFfn, stream_);
  std::vector<float> got;
  for (const uint16_t value : out.Read()) got.push_back(Float(value));
  EXPECT_LT(Distance(got, expected), 4e-3);
}

TEST_F(LayerTest, PagesAreCopiedInOrder) {
  constexpr uint32_t kPage = 256;  // numbers
  std::vector<uint32_t> pages(4 * kPage);
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<uint32_t>(i / kPage);
  const DeviceArray device(pages, stream_);
  const DeviceArray copies(std::vector<uint32_t>{0, 1, 1, 2}, stream_);
  RunPageCopies(device.data(), kPage * 4, copies.data(), 2, stream_);
  const auto got = device.Read();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i / kPage == 3 ? 3U : 0U);
}

}  // namespace
}  // namespace pie::cuda
