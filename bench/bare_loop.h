// BareLoop: steps sequences on a device directly. It submits the batches that the engine's step
// loop would build, without a scheduler or guests around them.
//
// Pages are handed out in order and never freed one by one. An error of the device ends the
// program. It is used by one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace pie {

class BareLoop {
 public:
  struct Sequence {
    std::vector<PageId> pages;  // may be more than its tokens need
    uint32_t tokens = 0;        // that are in the pages
    uint32_t next = 0;          // the input of the next step
    const DeviceAdapter* adapter = nullptr;
    int64_t zo_seed = 0;
    float zo_sigma = 0;
  };

  // Uses the device's pages from `first_page` on.
  explicit BareLoop(Backend& backend, uint32_t first_page = 0)
      : backend_(backend), first_page_(first_page), free_page_(first_page) {}

  // Appends tokens to a sequence, in batches as large as the device takes. The token that is
  // sampled greedily after the last of them becomes the sequence's next input.
  void Feed(Sequence& sequence, std::span<const uint32_t> tokens);

  // Computes one token of each sequence, in one batch.
  void Step(std::span<Sequence> sequences);

  // Computes `steps` tokens of each sequence with two batches in flight: each token goes from one
  // batch to the next on the device. Returns when each batch ended. The device is asynchronous.
  std::vector<std::chrono::steady_clock::time_point> Chain(std::span<Sequence> sequences,
                                                           uint32_t steps);

  // Forgets which pages are in use. Sequences that have pages must not be stepped again.
  void Reset() { free_page_ = first_page_; }

 private:
  void Add(Batch& batch, Sequence& sequence, std::span<const uint32_t> tokens);
  // Runs the batch. Every member has `rows` rows, and its last row is sampled.
  BatchOutput Run(uint32_t rows);

  Backend& backend_;
  const uint32_t first_page_;
  uint32_t free_page_;
  // Both keep their memory from batch to batch.
  Batch batch_;
  std::vector<SampleSpec> last_row_ = {SampleSpec{.rows = {0}}};
};

}  // namespace pie
