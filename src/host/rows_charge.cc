#include "host/rows_charge.h"

#include <algorithm>
#include <utility>

namespace pie::host {

void RowsCharge::PayFrom(Charge payer) {
  Share();
  own_ = std::move(payer);
}

bool RowsCharge::Cover(uint32_t pages) {
  const size_t bytes = size_t{pages - std::min(pages, first_)} * page_bytes_;
  return bytes <= own_.bytes() || own_.Resize(bytes);
}

void RowsCharge::Cut(uint32_t pages) {
  const size_t bytes = size_t{pages - std::min(pages, first_)} * page_bytes_;
  if (bytes < own_.bytes()) own_.Resize(bytes);
  first_ = std::min(first_, pages);
  // A piece that is cut in its middle stays charged as a whole.
  while (!shared_.empty() && shared_.back()->first >= pages) shared_.pop_back();
}

RowsCharge RowsCharge::Fork() {
  Share();
  RowsCharge fork(page_bytes_, first_);
  fork.own_ = own_.Same();
  fork.shared_ = shared_;
  return fork;
}

void RowsCharge::Share() {
  if (own_.bytes() == 0) return;
  const auto end = first_ + static_cast<uint32_t>(own_.bytes() / page_bytes_);
  if (shared_.size() >= kMostShared &&
      own_.Grow(size_t{first_ - shared_[0]->first} * page_bytes_)) {
    first_ = shared_[0]->first;
    shared_.clear();
  }
  Charge next = own_.Same();
  shared_.push_back(std::make_shared<Piece>(std::exchange(own_, std::move(next)), first_));
  first_ = end;
}

void RowsCharge::Release() {
  own_.Release();
  shared_.clear();
}

}  // namespace pie::host
