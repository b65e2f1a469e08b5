// GuestsMeanwhile: a step thread runs the guests that it has woken while it waits for them.
#pragma once

#include <memory>
#include <utility>

#include "sched/meanwhile.h"
#include "wasm/turns.h"

namespace pie::host {

class GuestsMeanwhile final : public Meanwhile {
 public:
  explicit GuestsMeanwhile(std::unique_ptr<wasm::Turns> turns) : turns_(std::move(turns)) {}
  void Begin() override { turns_->Lend(true); }
  void End() override { turns_->Lend(false); }
  bool RunOne() override { return turns_->RunOne(); }
  void HandOver() override { turns_->HandOver(); }

 private:
  const std::unique_ptr<wasm::Turns> turns_;
};

}  // namespace pie::host
