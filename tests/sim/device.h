// The dummy device in a simulated world: it takes time by the world's clock, and may fail.
#pragma once

#include <initializer_list>
#include <memory>
#include <random>

#include "backend/dummy/dummy_backend.h"
#include "base/clock.h"

namespace pie::sim {

class Dice {
 public:
  explicit Dice(std::mt19937_64& random) : random_(random) {}
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  template <class T>
  T Of(std::initializer_list<T> values) {
    return *(values.begin() + Below(static_cast<uint32_t>(values.size())));
  }

 private:
  std::mt19937_64& random_;
};

class Device final : public Backend {
 public:
  Device(const DummyOptions& options, ManualClock& clock, Dice& dice, bool faulty)
      : dummy_(MakeDummyBackend(options)), clock_(clock), dice_(dice), faulty_(faulty) {}

  bool faulty() const { return faulty_; }
  const BackendInfo& info() const override { return dummy_->info(); }
  Result<Ticket> Submit(const Batch& batch) override { return dummy_->Submit(batch); }
  Result<BatchOutput> Wait(Ticket ticket) override {
    clock_.AdvanceNs(100'000 + dice_.Below(20'000'000));
    Result<BatchOutput> output = dummy_->Wait(ticket);
    if (faulty_ && dice_.OneIn(50)) return Fail(Code::kInternal, "the device failed");
    return output;
  }
  Status ReadPage(PageId page, std::span<std::byte> content) override {
    return dummy_->ReadPage(page, content);
  }
  Status WritePage(PageId page, std::span<const std::byte> content) override {
    return dummy_->WritePage(page, content);
  }

 private:
  std::unique_ptr<Backend> dummy_;
  ManualClock& clock_;
  Dice& dice_;
  const bool faulty_;
};

}  // namespace pie::sim
