#include "backend/cuda/device/product_runner.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "backend/cuda/kernels/layer.h"
#include "base/round_up.h"

namespace pie::cuda {
namespace {

// Without a measurement, products of more rows go to cuBLASLt, or where that has nothing for them,
// of more than kTinyRows to streamed_product.h.
constexpr uint32_t kFewRows = 16;
constexpr uint32_t kTinyRows = 8;
// Of a product in bfloat16 that is measured as a streamed one, too.
constexpr uint32_t kMostStreamedRows = 64;
// Above kRowsAsTheyAre, rows are rounded up to kRowStep, so that cuBLASLt sees few different
// shapes.
constexpr uint32_t kRowsAsTheyAre = 256;
constexpr uint32_t kRowStep = 64;
// A packed matrix of a layer is multiplied without unpacking by at most this many rows. For more
// rows it is unpacked first.
constexpr uint32_t kPackedRows = 64;

static_assert(ProductRunner::kFixedRows % kRowStep == 0);

}  // namespace

void SetMatrix(Product& product, const DeviceMatrix& matrix) {
  product.w = matrix.data;
  product.kind = matrix.kind;
  product.scales = matrix.scales;
}

Status ProductRunner::ReserveUnpacked(uint64_t numbers) {
  if (options_.deterministic || options_.max_rows <= kPackedRows || numbers == 0) return {};
  unpacked_ = PIE_TRY(memory_.Take(numbers * 2, "an unpacked matrix"));
  return {};
}

bool ProductRunner::Unpacks(const Product& product) const {
  return unpacked_ != nullptr && product.kind != WeightKind::kBf16 && product.tiles == nullptr &&
         product.w != whole_ && product.rows > kPackedRows;
}

bool ProductRunner::UnpacksParts(const Product& whole) const {
  return unpacked_ != nullptr && whole.rows > kPackedRows;
}

Product ProductRunner::Unpacked(const Product& product) const {
  if (!Unpacks(product) || options_.skip) return product;
  RunUnpack(product.kind, product.w, product.scales, product.n, product.k, unpacked_, stream_);
  return AsUnpacked(product);
}

Product ProductRunner::AsUnpacked(Product product) const {
  product.w = unpacked_;
  product.kind = WeightKind::kBf16;
  product.scales = nullptr;
  product.fresh = true;
  return product;
}

BlasProduct ProductRunner::ForBlas(const Product& product) const {
  BlasProduct blas{.w = product.w,
                   .x = product.x,
                   .y = product.y,
                   .n = product.n,
                   .k = product.k,
                   .rows = product.rows,
                   .y_stride = product.y_stride,
                   .to_float = true,
                   .add = product.output == ProductOutput::kAdd};
  if (blas.rows > kRowsAsTheyAre) blas.rows = RoundUp(blas.rows, kRowStep);
  if (product.output == ProductOutput::kGated) {
    blas.y = ungated_;
    blas.y_stride = product.n;
    blas.to_float = false;
  }
  return blas;
}

uint32_t ProductRunner::TileOf(Way way) {
  return StreamedProducts::kTiles[way == Way::kStreamedLarge ? 1 : 0];
}

bool ProductRunner::Can(Way way, const Product& product) const {
  switch (way) {
    case Way::kOwn:
      return true;
    case Way::kBlas:
      return blas_ != nullptr && product.tiles == nullptr && product.bias == nullptr &&
             product.n % 8 == 0 && product.x_stride == product.k &&
             (product.kind == WeightKind::kBf16 || Unpacks(product));
    case Way::kStreamed:
    case Way::kStreamedLarge:
      return streamed_ != nullptr && streamed_->Takes(product, TileOf(way));
  }
  return false;
}

ProductRunner::Way ProductRunner::WayOf(const Product& product) const {
  if (options_.deterministic) {
    if (Can(Way::kStreamed, product)) return Way::kStreamed;
    Product fixed = product;
    fixed.rows = kFixedRows;
    return alike_.contains(KeyOf(fixed)) ? Way::kBlas : Way::kOwn;
  }
  const auto measured = fastest_.find(KeyOf(product));
  if (measured != fastest_.end()) return measured->second;
  const bool some = product.rows > kTinyRows && product.rows <= StreamedProducts::kMostRows;
  const bool blas = Can(Way::kBlas, product) && product.rows > kFewRows;
  if (some && (!blas || product.kind != WeightKind::kBf16) && Can(Way::kStreamed, product)) {
    return Way::kStreamed;
  }
  return blas ? Way::kBlas : Way::kOwn;
}

// In deterministic mode, equal numbers of rows make one algorithm serve every batch.
void ProductRunner::RunBlas(const Product& product) {
  BlasProduct blas = ForBlas(product);
  if (!options_.deterministic) {
    blas_->Run(blas, stream_);
    return;
  }
  blas.rows = kFixedRows;
  for (uint32_t done = 0; done < product.rows; done += kFixedRows) {
    blas_->Run(blas, stream_);
    blas.x = static_cast<const char*>(blas.x) + uint64_t{kFixedRows} * blas.k * 2;
    blas.y =
        static_cast<char*>(blas.y) + uint64_t{kFixedRows} * blas.y_stride * (blas.to_float ? 4 : 2);
  }
}

void ProductRunner::Multiply(const Product& of) {
  if (of.rows == 0 || options_.skip) return;
  MultiplyBy(WayOf(of), of);
}

void ProductRunner::MultiplyBy(Way way, const Product& of) {
  if (way == Way::kStreamed || way == Way::kStreamedLarge) {
    return streamed_->Run(of, TileOf(way), stream_);
  }
  const Product product = Unpacked(of);
  if (way == Way::kOwn) return RunProduct(product, stream_);
  RunBlas(product);
  if (product.output == ProductOutput::kGated) {
    RunGate(product.gate, ungated_, product.y, product.rows, product.n / 2, stream_);
  }
}

void ProductRunner::MultiplyUngated(const Product& gated, const Product& sums) {
  const Way way = WayOf(gated);
  if (way == Way::kBlas) {
    RunBlas(Unpacked(gated));
  } else {
    MultiplyBy(way, sums);
  }
}

void ProductRunner::MultiplyParts(std::span<const DeviceMatrix> parts, const Product& whole) {
  if (parts.size() == 1) return Multiply(whole);
  if (whole.rows == 0 || options_.skip) return;
  const bool unpacks = UnpacksParts(whole);
  uint64_t row = 0;
  for (const DeviceMatrix& part : parts) {
    Product product = whole;
    SetMatrix(product, part);
    product.n = part.rows;
    product.y = static_cast<float*>(whole.y) + row;
    char* const to = static_cast<char*>(unpacked_) + row * whole.k * 2;
    if (!unpacks) {
      RunProduct(product, stream_);
    } else if (part.kind == WeightKind::kBf16) {
      CopyWithin(to, part.data, uint64_t{part.rows} * whole.k * 2, stream_);
    } else {
      RunUnpack(part.kind, part.data, part.scales, part.rows, whole.k, to, stream_);
    }
    row += part.rows;
  }
  if (unpacks) Multiply(AsUnpacked(whole));
}

void ProductRunner::ChooseFastest(std::span<const Way> ways, Product product,
                                  std::span<const DeviceMatrix> matrices) {
  constexpr int kRuns = 4;
  const auto run = [&](Way way) {
    for (const DeviceMatrix& matrix : matrices) {
      SetMatrix(product, matrix);
      MultiplyBy(way, product);
    }
  };
  std::vector<std::unique_ptr<TimedGraph>> graphs;
  for (const Way way : ways) {
    run(way);  // loads the kernel
    Synchronize(stream_);
    graphs.push_back(std::make_unique<TimedGraph>([&] { run(way); }, stream_));
  }
  // The ways take turns, since clocks change.
  std::vector<float> best(ways.size(), std::numeric_limits<float>::infinity());
  for (int i = 0; i < kRuns; ++i) {
    for (size_t way = 0; way < ways.size(); ++way) {
      if (graphs[way]->recorded()) best[way] = std::min(best[way], graphs[way]->Run());
    }
  }
  fastest_[KeyOf(product)] = ways[std::ranges::min_element(best) - best.begin()];
}

void ProductRunner::Tune(const Product& product, std::span<const DeviceMatrix> matrices) {
  if (fastest_.contains(KeyOf(product))) return;
  if (options_.deterministic && Can(Way::kStreamed, product)) return;
  if (Can(Way::kBlas, product)) {
    const bool packed = product.kind != WeightKind::kBf16;
    std::vector<const void*> unpacked;
    for (const DeviceMatrix& matrix : matrices) unpacked.push_back(matrix.data);
    if (packed) unpacked = {unpacked_};
    const BlasProduct for_blas = ForBlas(packed ? AsUnpacked(product) : product);
    if (options_.deterministic) {
      if (blas_->TuneAlike(for_blas, unpacked, stream_) > 0) alike_.insert(KeyOf(product));
      return;
    }
    if (blas_->Tune(for_blas, unpacked, stream_) < 0) return;
  }
  if (options_.deterministic) return;
  // For more than one row, our product of few rows is slower in a step than alone.
  std::vector<Way> ways;
  if (product.rows == 1 || !Can(Way::kBlas, product)) ways.push_back(Way::kOwn);
  if (product.rows > 1 && Can(Way::kBlas, product)) ways.push_back(Way::kBlas);
  // From some tens of rows on, cuBLASLt always wins in bfloat16.
  const uint32_t most =
      product.kind == WeightKind::kBf16 ? kMostStreamedRows : StreamedProducts::kMostRows;
  for (const Way way : {Way::kStreamed, Way::kStreamedLarge}) {
    const bool fits = product.rows > 1 && product.rows <= most;
    if (fits && Can(way, product)) ways.push_back(way);
  }
  if (ways.size() == 1) {
    fastest_[KeyOf(product)] = ways[0];
    return;
  }
  ChooseFastest(ways, product, matrices);
}

void ProductRunner::TuneParts(const Product& whole) {
  if (!UnpacksParts(whole)) return;
  const DeviceMatrix unpacked{.data = unpacked_};
  Tune(AsUnpacked(whole), {&unpacked, 1});
}

}  // namespace pie::cuda
