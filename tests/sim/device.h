// The dummy device in a simulated world: it takes time by the world's clock, and may fail.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <random>
#include <unordered_map>

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
      : options_(options),
        dummy_(MakeDummyBackend(options)),
        clock_(clock),
        dice_(dice),
        faulty_(faulty) {}

  const DummyOptions& options() const { return options_; }
  // A pass, known by its seed, that will compute rows from `slot` of its sequence on: each of them
  // once, and none before. What has another seed is a replay.
  void Expect(uint64_t seed, uint32_t slot) { next_slot_[seed] = slot; }
  uint64_t replayed_rows() const { return replayed_rows_; }
  Status problem() const { return problem_; }

  bool faulty() const { return faulty_; }
  const BackendInfo& info() const override { return dummy_->info(); }
  Result<Ticket> Submit(const Batch& batch) override {
    for (const Batch::Member& member : batch.members) Count(member);
    return dummy_->Submit(batch);
  }
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
  void Count(const Batch::Member& member) {
    const auto pass = next_slot_.find(member.seed);
    if (pass == next_slot_.end()) {
      replayed_rows_ += member.rows;
      return;
    }
    if (member.kv_tokens < pass->second) {
      problem_ = Fail(Code::kInternal, "row {} is computed by a pass that begins with {}",
                      member.kv_tokens, pass->second);
    }
    pass->second = member.kv_tokens + member.rows;
  }

  const DummyOptions options_;
  std::unique_ptr<Backend> dummy_;
  ManualClock& clock_;
  Dice& dice_;
  const bool faulty_;
  std::unordered_map<uint64_t, uint32_t> next_slot_;  // of each pass
  uint64_t replayed_rows_ = 0;
  Status problem_;
};

}  // namespace pie::sim
