// The class behind cuda_backend.h. See there.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device/device_weights.h"
#include "backend/cuda/device/page_transfers.h"
#include "backend/cuda/device/step_runner.h"
#include "backend/cuda/step_builder.h"
#include "backend/sampling.h"

namespace pie::cuda {

class DeviceBackend final : public Backend {
 public:
  // `config` has its rotary factors chosen. `make_weights` is called once the device is open, and
  // takes about `weight_bytes` of its memory.
  using MakeWeights = std::function<Result<DeviceWeights>(Stream stream)>;
  static Result<std::unique_ptr<Backend>> Make(const ModelConfig& config,
                                               const CudaOptions& options, std::string fingerprint,
                                               const std::string& name, uint64_t weight_bytes,
                                               const MakeWeights& make_weights);
  ~DeviceBackend() override;

  const BackendInfo& info() const override { return info_; }
  Result<Ticket> Submit(const Batch& batch) override;
  Result<BatchOutput> Wait(Ticket ticket) override;
  Result<DeviceAdapterPtr> LoadAdapter(const AdapterWeights& weights) const override;
  Status ReadPage(PageId page, std::span<std::byte> content) override;
  Status WritePage(PageId page, std::span<const std::byte> content) override;
  Result<PageContentsPtr> ReadPages(std::span<const PageId> pages) override;
  Status WritePages(std::span<const PageId> pages, const StoredKv& stored, uint32_t first) override;

 private:
  struct Flight {  // a batch in flight
    Ticket ticket = 0;
    const Batch* batch = nullptr;
    StepPlan plan;
    std::vector<float> logits;  // of plan.host_reads
    std::vector<float> states;  // of plan.state_rows, before the last norm
  };
  // Whether the first token of each member of a batch was chosen.
  struct Choices {
    Ticket ticket = 0;
    std::vector<bool> chosen;
  };

  DeviceBackend(const ModelConfig& config, const CudaOptions& options)
      : config_(config), options_(options) {}
  Status Open(std::string fingerprint, const std::string& name, uint64_t weight_bytes,
              const MakeWeights& make_weights);
  void Enter();
  Status AllocatePages(size_t free_before);
  Status Reserve(const StepPlan& plan);
  void WarmUp();
  // The purpose of a recorded step.
  struct Bucket {
    uint32_t rows = 0;
    bool large_tiles = false;
    bool partial_results = false;
    auto operator<=>(const Bucket&) const = default;
  };
  // Launches everything after the copy of the inputs, by the bucket's graph if there is one.
  void LaunchStep(Flight& flight, const std::optional<Bucket>& bucket);
  void LaunchBucket(const Bucket& bucket);
  Graph Record(const Bucket& bucket);
  std::optional<Bucket> BucketOf(const StepPlan& plan) const;
  SamplingInputs SamplingOf(uint32_t first_read) const;
  Status WaitForTicket(Ticket ticket);
  Status Check(const char* what);
  Status Lose(const std::string& why);
  Status Alive() const;  // an error with the first reason once the device is lost
  Status ReadMember(const Flight& flight, uint32_t member, std::vector<Slot>& slots);
  std::vector<float> EmbeddingOf(std::span<const float> state) const;
  std::vector<const Batch*> BatchesInFlight() const;
  bool CarriedTokenCame(const Batch::CarriedToken& carried) const;

  const ModelConfig config_;
  const CudaOptions options_;
  BackendInfo info_;
  std::thread::id thread_;  // that last called
  Stream stream_ = nullptr;
  std::unique_ptr<Blas> blas_;
  DeviceWeights weights_;
  std::vector<float> output_norm_;  // a copy on the host
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<StepBuilder> builder_;
  DeviceMemory memory_;
  std::byte* pages_ = nullptr;
  uint32_t* chosen_ = nullptr;  // device: [kRing, members]

  std::byte* step_ = nullptr;  // device: a StepHeader and its arrays
  size_t step_bytes_ = 0;
  std::byte* staging_[StepBuilder::kRing] = {};  // pinned, step_bytes_ each
  SamplingOutput outputs_[StepBuilder::kRing];   // pinned
  uint32_t output_tokens_ = 0;
  uint32_t output_values_ = 0;
  uint64_t* done_ = nullptr;  // pinned: the last ticket that has run

  std::map<Bucket, Graph> graphs_;
  std::deque<Flight> flights_;
  std::deque<Choices> choices_;
  Sampling sampling_;
  Ticket ticket_ = 0;
  std::string failure_;  // the device is lost
  const std::shared_ptr<DeviceHealth> health_ = std::make_shared<DeviceHealth>();
  bool hangs_ = false;  // a kernel does not end: nothing may wait for the device
  std::unique_ptr<PageTransfers> transfers_;
};

}  // namespace pie::cuda
