// For the scheduler's tests: a device that can be held, a `done` that can be waited for, and a
// fixture that runs every test on a synchronous and on an asynchronous device.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "backend/asynchronous.h"
#include "backend/dummy/dummy_backend.h"
#include "backend/sampling.h"
#include "sched/scheduler.h"

namespace pie::testing {

// Holds batches on the device for as long as the test likes, and records them.
class Gate {
 public:
  void Hold() { Set(true); }
  void Open() { Set(false); }
  // The device has a batch and waits at the gate.
  bool WaitBusy() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return at_gate_; });
  }
  std::vector<std::vector<uint32_t>> batches() {  // rows of each member of each batch
    const std::lock_guard lock(mutex_);
    return batches_;
  }

  void Record(const Batch& batch) {
    const std::lock_guard lock(mutex_);
    auto& rows = batches_.emplace_back();
    for (const Batch::Member& member : batch.members) rows.push_back(member.rows);
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    at_gate_ = held_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_; });
    at_gate_ = false;
  }

 private:
  void Set(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool at_gate_ = false;
  std::vector<std::vector<uint32_t>> batches_;
};

// A dummy device. Subclasses change some of its calls.
class AroundDummy : public Backend {
 public:
  explicit AroundDummy(const DummyOptions& options) : dummy_(MakeDummyBackend(options)) {}
  const BackendInfo& info() const override { return dummy_->info(); }
  Result<Ticket> Submit(const Batch& batch) override { return dummy_->Submit(batch); }
  Result<BatchOutput> Wait(Ticket ticket) override { return dummy_->Wait(ticket); }
  Status ReadPage(PageId page, std::span<std::byte> content) override {
    return dummy_->ReadPage(page, content);
  }
  Status WritePage(PageId page, std::span<const std::byte> content) override {
    return dummy_->WritePage(page, content);
  }
  Result<DeviceAdapterPtr> LoadAdapter(const AdapterWeights& weights) const override {
    return dummy_->LoadAdapter(weights);
  }

 private:
  std::unique_ptr<Backend> dummy_;
};

class GatedBackend final : public AroundDummy {
 public:
  GatedBackend(const DummyOptions& options, std::shared_ptr<Gate> gate)
      : AroundDummy(options), gate_(std::move(gate)) {}
  Result<Ticket> Submit(const Batch& batch) override {
    gate_->Record(batch);
    return AroundDummy::Submit(batch);
  }
  Result<BatchOutput> Wait(Ticket ticket) override {
    gate_->Pass();
    return AroundDummy::Wait(ticket);
  }

 private:
  std::shared_ptr<Gate> gate_;
};

// The end of one pass: its result, or nothing if `done` was destroyed without a call.
class Outcome {
 public:
  using Slots = Result<std::vector<Slot>>;

  // The callback to give away. Calls after the first fail the test.
  auto Callback() {
    return [held = Held(state_)](Slots slots) mutable {
      const std::lock_guard lock(held.state->mutex);
      EXPECT_FALSE(held.state->result) << "done was called twice";
      held.state->result = std::move(slots);
    };
  }
  // Waits until the callback was called or destroyed.
  std::optional<Slots> Get() const {
    std::unique_lock lock(state_->mutex);
    const bool ended =
        state_->changed.wait_for(lock, std::chrono::seconds(30), [&] { return state_->destroyed; });
    EXPECT_TRUE(ended) << "done was neither called nor destroyed";
    return state_->result;
  }
  uint32_t Token(size_t slot = 0) const {
    const auto result = Get();
    EXPECT_TRUE(result && *result) << (result ? result->error().text : "vanished");
    if (!result || !*result || (*result)->size() <= slot) return UINT32_MAX;
    return std::get<TokenSlot>((**result)[slot]).token;
  }
  Error Failure() const {
    const auto result = Get();
    EXPECT_TRUE(result && !*result) << "the pass did not fail";
    return result && !*result ? result->error() : Error{};
  }
  bool Vanished() const { return !Get(); }
  bool ended() const {
    const std::lock_guard lock(state_->mutex);
    return state_->destroyed;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Slots> result;
    bool destroyed = false;
  };
  struct Held {
    explicit Held(std::shared_ptr<State> s) : state(std::move(s)) {}
    Held(Held&&) = default;
    ~Held() {
      if (!state) return;
      const std::lock_guard lock(state->mutex);
      state->destroyed = true;
      state->changed.notify_all();
    }
    std::shared_ptr<State> state;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A sequence as its owner sees it: the tokens that were appended, and the results that the device
// must give.
struct Mirror {
  SequenceId id;
  std::vector<DummySlot> slots;

  uint32_t Greedy(const DummyOptions& options) const {
    return *Argmax(DummyLogits(options, slots), nullptr);
  }
  // A pass that appends `tokens` and reads the greedy token of its last row.
  Forward Append(const std::vector<uint32_t>& tokens) {
    Forward forward;
    forward.sequence = id;
    forward.tokens = tokens;
    for (uint32_t token : tokens) {
      const auto position = static_cast<uint32_t>(slots.size());
      forward.positions.push_back(position);
      slots.push_back({token, position});
    }
    forward.samples = {{.rows = {static_cast<uint32_t>(tokens.size()) - 1}}};
    return forward;
  }
};

enum class Device : uint8_t { kSynchronous, kAsynchronous };

// The dummy device, at once or on a thread of its own that takes two batches at a time.
inline std::unique_ptr<Backend> MakeDevice(Device device, const DummyOptions& options,
                                           std::shared_ptr<Gate> gate) {
  auto gated = std::make_unique<GatedBackend>(options, std::move(gate));
  if (device == Device::kSynchronous) return gated;
  return MakeAsynchronous(std::move(gated));
}

inline const char* NameOf(Device device) {
  return device == Device::kSynchronous ? "Synchronous" : "Asynchronous";
}

// A scheduler on a device that can be held.
class SchedulerFixture : public ::testing::TestWithParam<Device> {
 protected:
  using Tokens = std::vector<uint32_t>;

  void Start(DummyOptions device, const SchedulerOptions& options = {.check_integrity = true}) {
    device_ = device;
    scheduler_ = std::make_unique<Scheduler>(MakeDevice(GetParam(), device, gate_), options);
  }
  void TearDown() override { gate_->Open(); }

  Mirror Create(const CacheSalt& salt = {}) { return {scheduler_->Create(salt), {}}; }
  Mirror Fork(const Mirror& parent) { return {scheduler_->Fork(parent.id), parent.slots}; }
  void Truncate(Mirror& mirror, uint32_t tokens) {
    scheduler_->Truncate(mirror.id, tokens);
    mirror.slots.resize(tokens);
  }
  Outcome Run(Forward forward) {
    Outcome outcome;
    forward.done = outcome.Callback();
    scheduler_->Execute(std::move(forward));
    return outcome;
  }
  Outcome Append(Mirror& mirror, const Tokens& tokens) { return Run(mirror.Append(tokens)); }
  void ExpectAppend(Mirror& mirror, const Tokens& tokens) {
    const uint32_t token = Append(mirror, tokens).Token();
    EXPECT_EQ(token, Greedy(mirror));
  }
  uint32_t Greedy(const Mirror& mirror) const { return mirror.Greedy(device_); }
  uint64_t pages_used() const { return scheduler_->stats().pages_used; }
  // Keeps the device busy with the pass of another sequence, so that what follows queues up.
  Mirror Block() {
    Mirror blocker = Create();
    gate_->Hold();
    Append(blocker, {'#'});
    EXPECT_TRUE(gate_->WaitBusy());
    return blocker;
  }
  bool Idle() { return scheduler_->WaitIdle(20'000); }

  DummyOptions device_;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::unique_ptr<Scheduler> scheduler_;
};

// Runs the tests of a fixture on both kinds of devices.
#define PIE_ON_BOTH_DEVICES(Fixture)                                                 \
  INSTANTIATE_TEST_SUITE_P(Devices, Fixture,                                         \
                           ::testing::Values(::pie::testing::Device::kSynchronous,   \
                                             ::pie::testing::Device::kAsynchronous), \
                           [](const auto& test) { return ::pie::testing::NameOf(test.param); })

}  // namespace pie::testing
