#include "sched/swap.h"

namespace pie {
namespace {

class SwappedKv final : public StoredKv {
 public:
  SwappedKv(std::shared_ptr<uint32_t> room, Rows rows, PageContentsPtr pages)
      : room_(std::move(room)), rows_(std::move(rows)), pages_(std::move(pages)) {
    *room_ -= pages_->pages();
  }
  ~SwappedKv() override { *room_ += pages_->pages(); }

  RowsView rows() const override { return rows_.view(); }
  Result<std::span<const std::byte>> Page(uint32_t index) const override {
    return pages_->Page(index);
  }

 private:
  const std::shared_ptr<uint32_t> room_;
  const Rows rows_;
  const PageContentsPtr pages_;
};

}  // namespace

bool SwapIsCheaper(const SwapCosts& costs, uint32_t tokens, uint32_t pages) {
  if (costs.token_ns == 0 || costs.page_ns == 0) return true;
  return 2 * costs.page_ns * pages < costs.token_ns * tokens;
}

void Smooth(double& average, double measured) {
  average = average == 0 ? measured : average + (measured - average) / 16;
}

std::shared_ptr<const StoredKv> SwapPool::Keep(Rows rows, PageContentsPtr pages) {
  return std::make_shared<SwappedKv>(room_, std::move(rows), std::move(pages));
}

}  // namespace pie
