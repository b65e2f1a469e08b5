// RowPrice: learns what one more row in a batch costs, from the batches that have run. The time of
// a small batch is taken as a + b · rows, fitted to the recent ones. Owner: the step thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pie {

class RowPrice {
 public:
  // Reports that a batch of `rows` rows took `ns`.
  void Add(size_t rows, int64_t ns) {
    if (rows == 0 || rows > kRows) return;
    const auto x = static_cast<double>(rows);
    const auto y = static_cast<double>(ns);
    for (double* sum : {&n_, &x_, &y_, &xx_, &xy_}) *sum *= kKept;
    n_ += 1;
    x_ += x;
    y_ += y;
    xx_ += x * x;
    xy_ += x * y;
  }

  // Returns the price of one more row in a batch of `rows` rows: the time that it adds, divided by
  // the time that each of the rows has. So the price is in tokens that the other rows lose.
  double Of(size_t rows) const {
    const double spread = n_ * xx_ - x_ * x_;
    if (n_ < 1 || spread < kSpread * n_ * n_) return kUnknown;
    const double slope = std::max((n_ * xy_ - x_ * y_) / spread, 0.0);
    const double base = std::max((y_ - slope * x_) / n_, 0.0);
    const auto count = static_cast<double>(std::max<size_t>(rows, 1));
    const double batch = base + slope * count;
    if (batch <= 0) return kUnknown;
    return std::clamp(slope * count / batch, kLeast, 1.0);
  }

 private:
  static constexpr size_t kRows = 128;     // larger batches are prompts
  static constexpr double kKept = 0.98;    // of the sums, by each batch
  static constexpr double kSpread = 0.05;  // with less variance of the rows, the fit says nothing
  static constexpr double kUnknown = 0.25;
  static constexpr double kLeast = 0.02;

  double n_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

}  // namespace pie
