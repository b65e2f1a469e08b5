// GuestsMeanwhile: a device's threads run the guests that its last batch woke.
#pragma once

#include <memory>
#include <utility>

#include "backend/meanwhile.h"
#include "wasm/turns.h"

namespace pie::host {

class GuestsMeanwhile final : public Meanwhile {
 public:
  explicit GuestsMeanwhile(std::unique_ptr<wasm::Turns> turns) : turns_(std::move(turns)) {}
  void Begin() override { turns_->Keep(true); }
  void End() override { turns_->Keep(false); }
  bool RunOne() override { return turns_->RunOne(); }
  void HandOver() override { turns_->HandOver(); }
  void Crowded() override { wasm::Turns::AskApart(); }

 private:
  const std::unique_ptr<wasm::Turns> turns_;
};

}  // namespace pie::host
