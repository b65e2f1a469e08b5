// Parts of the measurements of the cost of letting a program drive the model: a device that is
// divided between an engine and a bare loop, the inferlets that generate (bench/guest), and the
// same generations by the bare loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "bare_loop.h"
#include "host/engine.h"
#include "speech/model.h"

namespace pie {

double Median(std::vector<double> values);

// Times at the device between two decode batches of equal size, in nanoseconds. Written by the step
// thread, read while nothing runs.
struct Steps {
  std::vector<double> periods;  // from the end of one batch to the end of the next
  std::vector<double> gaps;     // from the end of one batch to the start of the next
  size_t members = 0;           // of the last decode batch; 0: it was none
  std::chrono::steady_clock::time_point ended;
};

// A device with the lower half of another's pages. The engine uses it; the bare loop uses the rest.
class LowerHalf final : public Backend {
 public:
  LowerHalf(Backend& whole, Steps& steps) : whole_(whole), info_(whole.info()), steps_(steps) {
    info_.total_pages /= 2;
  }
  const BackendInfo& info() const override { return info_; }
  Result<Ticket> Submit(const Batch& batch) override;
  Result<BatchOutput> Wait(Ticket ticket) override;
  void SetMeanwhile(const std::shared_ptr<Meanwhile>& meanwhile) override {
    whole_.SetMeanwhile(meanwhile);
  }
  Status ReadPage(PageId page, std::span<std::byte> content) override {
    return whole_.ReadPage(page, content);
  }
  Status WritePage(PageId page, std::span<const std::byte> content) override {
    return whole_.WritePage(page, content);
  }
  Result<PageContentsPtr> ReadPages(std::span<const PageId> pages) override {
    return whole_.ReadPages(pages);
  }
  Status WritePages(std::span<const PageId> pages, const StoredKv& stored,
                    uint32_t first) override {
    return whole_.WritePages(pages, stored, first);
  }

 private:
  Backend& whole_;
  BackendInfo info_;
  Steps& steps_;
  std::deque<bool>
      follow_;  // batches in flight: whether they are decode batches after an equal one
};

// The prompt of the guest with this index (bench/guest).
uint32_t PromptToken(uint32_t index, uint32_t place);

// The generations of the inferlets, computed by a bare loop in the upper half of the pages.
class BareGenerations {
 public:
  // Computes prompts of `prompt` tokens for `count` sequences, once.
  BareGenerations(Backend& backend, uint32_t count, uint32_t prompt, uint32_t steps);

  // Generates from the prompts on. Returns the median of a step's nanoseconds.
  double Step();
  double Chain();  // with two batches in flight, on an asynchronous device

 private:
  void Rewind();

  BareLoop loop_;
  const uint32_t prompt_;
  const uint32_t steps_;
  std::vector<BareLoop::Sequence> sequences_;
};

// An engine on the lower half of a device, with the program bench/guest.
class Guests {
 public:
  // `file` is bench-guest.wasm.
  Guests(const std::string& file, Model model, Backend& whole, const SchedulerOptions& options);

  // Runs `count` inferlets at once. Returns what each of them returned.
  std::vector<double> Run(const char* mode, uint32_t count, uint32_t n, uint32_t prompt);
  Steps TakeSteps() { return std::exchange(steps_, {}); }

 private:
  Steps steps_;
  std::unique_ptr<host::Engine> engine_;
};

}  // namespace pie
