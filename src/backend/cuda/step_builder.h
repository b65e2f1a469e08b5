// StepBuilder: turns a Batch into the block of memory that the kernels read (kernels/step.h), and
// keeps the data that the host needs to make a BatchOutput of their results. It runs on any
// machine.
//
// Owner: one backend. It keeps its buffers from step to step. Costs about a microsecond per member,
// and a pass over the masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backend/batch.h"
#include "backend/cuda/kernels/step.h"
#include "backend/cuda/tile_planner.h"
#include "model/adapter/adapter.h"

namespace pie::cuda {

// The parts of a model that adapters change, besides the projections of layers.
struct AdapterParts {
  bool experts = false;
  bool embedding = false;
  bool head = false;

  void Add(AdapterTarget target, bool has_experts);
  void Add(const AdapterParts& other);
};

// An adapter on this device. Immutable.
class StepAdapter : public DeviceAdapter {
 public:
  virtual uint64_t matrices() const = 0;  // their address on the device
  virtual AdapterParts parts() const = 0;
};

// Where the results of a step are found, by member in the order of their slots.
struct SlotPlan {
  enum class Kind : uint8_t { kTokens, kLogprobs, kEntropy, kEmbedding, kOnHost };

  Kind kind = Kind::kTokens;
  // Into the tokens or values of the outputs; kEmbedding: into state_rows; kOnHost: into
  // host_reads.
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t spec = 0;  // kOnHost: the sample that is read there …
  uint32_t row = 0;   // … and its row of the StepRunner
};

struct StepPlan {
  std::vector<std::byte> bytes;  // a StepHeader and its arrays
  uint32_t rows = 0;
  uint32_t reads = 0;
  uint32_t tokens = 0;  // slots of tokens
  uint32_t values = 0;  // floats of probes
  bool has_large_tiles = false;
  bool has_parts = false;  // partial results, which are merged
  bool has_adapters = false;
  AdapterParts adapter_parts;                // of all adapters together
  std::vector<uint32_t> host_reads;          // reads whose logits the host wants, ascending
  std::vector<uint32_t> state_rows;          // rows whose hidden states the host wants, ascending
  std::vector<std::vector<SlotPlan>> slots;  // [members]
  // Members whose masks could not be made. They run, and their samples allow everything.
  std::vector<std::pair<uint32_t, Error>> failures;
  std::vector<bool> chooses;  // [members]: its first slot is a token

  const StepHeader& header() const { return *reinterpret_cast<const StepHeader*>(bytes.data()); }
};

// The key of a row's random choices, and which of the member's TokenMasks it has.
DrawKey DrawKeyOf(const Batch::Member& member, uint32_t row);
uint32_t MaskIndexOf(const Batch::Member& member, uint32_t row);

class StepBuilder {
 public:
  static constexpr uint32_t kRing = 4;  // batches whose chosen tokens and outputs are kept

  explicit StepBuilder(const StepShape& shape) : shape_(shape), tiles_(shape) {}

  void Build(const Batch& batch, BatchTicket ticket, StepPlan& plan);

 private:
  void AddRows(const Batch& batch, StepHeader& header, StepPlan& plan);
  void AddMasks(const Batch& batch);
  static void AddAdapters(const Batch& batch, StepHeader& header, StepPlan& plan);
  void AddTiles(const Batch& batch, StepHeader& header, StepPlan& plan);
  void AddSamples(const Batch& batch, BatchTicket ticket, StepHeader& header, StepPlan& plan);
  // The offset of a row's logit mask, or kNone.
  uint32_t LogitMaskOf(const Batch& batch, uint32_t member, uint32_t row, StepPlan& plan);
  uint32_t AddMaskBits(const Brle& mask, uint32_t limit, uint32_t bits);

  const StepShape shape_;
  TilePlanner tiles_;
  std::vector<uint32_t> mask_words_;
  std::vector<uint32_t> row_masks_;
  std::vector<uint32_t> logit_masks_;                              // [members]
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> token_masks_;  // (member, index) → offset
  std::vector<uint32_t> limits_;  // [rows]: keys that a row may see
};

}  // namespace pie::cuda
