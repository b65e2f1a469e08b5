// The dummy device in a simulated world: it takes time by the world's clock, and may fail.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <random>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "backend/carried_tokens.h"
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
  // A device of several batches in flight runs them at random moments between Submit and Wait.
  Device(const DummyOptions& options, ManualClock& clock, Dice& dice, bool faulty,
         uint32_t batches_in_flight)
      : options_(options),
        dummy_(MakeDummyBackend(options)),
        info_(dummy_->info()),
        clock_(clock),
        dice_(dice),
        faulty_(faulty),
        tokens_(batches_in_flight) {
    info_.batches_in_flight = batches_in_flight;
  }

  const DummyOptions& options() const { return options_; }
  // Announces a pass, known by its seed, that computes each row of its sequence from `slot` on
  // exactly once, and no earlier row. A batch member with another seed is a replay.
  void Expect(uint64_t seed, uint32_t slot) { next_slot_[seed] = slot; }
  // The pass has drafts: rows of those that are not chosen are computed again, with other tokens.
  void ExpectDrafts(uint64_t seed) { drafted_.insert(seed); }
  uint64_t replayed_rows() const { return replayed_rows_; }
  Status problem() const { return problem_; }

  bool faulty() const { return faulty_; }
  const BackendInfo& info() const override { return info_; }
  Result<Ticket> Submit(const Batch& batch) override {
    PIE_CHECK(jobs_.size() < info_.batches_in_flight);
    jobs_.push_back({.ticket = ++last_ticket_, .batch = &batch, .output = std::nullopt});
    RunUpTo(info_.batches_in_flight == 1 ? 1 : dice_.Below(info_.batches_in_flight + 1));
    return last_ticket_;
  }
  Result<BatchOutput> Wait(Ticket ticket) override {
    PIE_CHECK(!jobs_.empty() && jobs_.front().ticket == ticket);
    clock_.AdvanceNs(100'000 + dice_.Below(20'000'000));
    RunUpTo(1);
    Result<BatchOutput> output = *std::move(jobs_.front().output);
    jobs_.pop_front();
    if (faulty_ && dice_.OneIn(50)) return Fail(Code::kInternal, "the device failed");
    return output;
  }
  Status ReadPage(PageId page, std::span<std::byte> content) override {
    RunUpTo(jobs_.size());
    return dummy_->ReadPage(page, content);
  }
  Status WritePage(PageId page, std::span<const std::byte> content) override {
    RunUpTo(jobs_.size());
    return dummy_->WritePage(page, content);
  }
  Result<DeviceAdapterPtr> LoadAdapter(const AdapterWeights& weights) const override {
    return dummy_->LoadAdapter(weights);
  }

 private:
  struct Job {
    Ticket ticket = 0;
    const Batch* batch = nullptr;
    std::optional<Result<BatchOutput>> output;  // set when it has run
  };

  // Runs the oldest `count` batches in flight, as far as they have not run.
  void RunUpTo(size_t count) {
    for (size_t i = 0; i < std::min(count, jobs_.size()); ++i) {
      Job& job = jobs_[i];
      if (job.output) continue;
      for (const Batch::Member& member : job.batch->members) Count(member);
      job.output = tokens_.Run(*dummy_, job.ticket, *job.batch);
    }
  }

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
    if (!drafted_.contains(member.seed)) pass->second = member.kv_tokens + member.rows;
  }

  const DummyOptions options_;
  std::unique_ptr<Backend> dummy_;
  BackendInfo info_;
  ManualClock& clock_;
  Dice& dice_;
  const bool faulty_;
  CarriedTokens tokens_;
  std::deque<Job> jobs_;  // in flight, the oldest first
  Ticket last_ticket_ = 0;
  std::unordered_map<uint64_t, uint32_t> next_slot_;  // of each pass
  std::unordered_set<uint64_t> drafted_;              // passes with drafts
  uint64_t replayed_rows_ = 0;
  Status problem_;
};

}  // namespace pie::sim
