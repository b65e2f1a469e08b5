#include "backend/cuda/device/device_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

#include "backend/cuda/device/device_adapter.h"

namespace pie::cuda {
namespace {

// Rows for which graphs are recorded.
constexpr uint32_t kBuckets[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256};
constexpr uint32_t kMostPages = 1 << 18;
constexpr size_t kStepBytes = 8U << 20;
constexpr uint32_t kOutputTokens = 1 << 16;
constexpr uint32_t kOutputValues = 1 << 18;
// Deterministic mode: keys of a piece of attention, and the partial results that there is room for.
constexpr uint32_t kLeastCut = 1024;
constexpr uint64_t kMostFixedParts = 1 << 15;

}  // namespace

Result<std::unique_ptr<Backend>> DeviceBackend::Make(const ModelConfig& config,
                                                     const CudaOptions& options,
                                                     std::string fingerprint,
                                                     const std::string& name, uint64_t weight_bytes,
                                                     const MakeWeights& make_weights) {
  PIE_RETURN_IF_ERROR(CheckShape(config, name));
  std::unique_ptr<DeviceBackend> backend(new DeviceBackend(config, options));
  PIE_RETURN_IF_ERROR(backend->Open(std::move(fingerprint), name, weight_bytes, make_weights));
  return backend;
}

DeviceBackend::~DeviceBackend() {
  if (hangs_) {  // freeing memory would wait for the kernel that never ends
    static_cast<void>(runner_.release());
    static_cast<void>(blas_.release());
    if (transfers_ != nullptr) transfers_->Abandon();
    weights_.memory->Abandon();
    memory_.Abandon();
    return;
  }
  Enter();
  if (stream_ != nullptr) Synchronize(stream_);
  transfers_.reset();
  for (const auto& [key, graph] : graphs_) {
    if (graph != nullptr) DestroyGraph(graph);
  }
  for (std::byte* const staging : staging_) FreePinned(staging);
  for (const SamplingOutput& output : outputs_) {
    FreePinned(output.tokens);
    FreePinned(output.values);
  }
  FreePinned(done_);
  if (stream_ != nullptr) DestroyStream(stream_);
}

Status DeviceBackend::Open(std::string fingerprint, const std::string& name, uint64_t weight_bytes,
                           const MakeWeights& make_weights) {
  if (options_.page_tokens == 0 || options_.max_batch_tokens == 0 ||
      options_.max_batch_members == 0) {
    return Fail(Code::kInvalid,
                "page_tokens, max_batch_tokens and max_batch_members must be at least 1");
  }
  std::string why;
  const std::vector<DeviceInfo> devices = ListDevices(&why);
  const auto device = std::ranges::find(devices, options_.device, &DeviceInfo::number);
  if (device == devices.end()) {
    return Fail(Code::kUnavailable, "there is no CUDA device {}: {}; use the cpu driver",
                options_.device, why.empty() ? fmt::format("{} found", devices.size()) : why);
  }
  if (device->major < 8) {
    return Fail(Code::kUnavailable,
                "{} has compute capability {}.{}; the cuda driver needs 8.0 or later", device->name,
                device->major, device->minor);
  }
  if (const std::string error = OpenDevice(options_.device); !error.empty()) {
    return Fail(Code::kUnavailable, "{} cannot be opened: {}", device->name, error);
  }
  const size_t free_before = FreeMemory();
  if (weight_bytes > free_before) {
    return Fail(Code::kExhausted,
                "{} has too little memory for {}: the weights take {} MB and {} MB are free, so {} "
                "MB are missing; use a smaller model or the cpu driver",
                device->name, name, weight_bytes >> 20, free_before >> 20,
                ((weight_bytes - free_before) >> 20) + 1);
  }
  stream_ = MakeStream();
  blas_ = Blas::Load(&why);  // without it, our own products do all the work
  weights_ = PIE_TRY(make_weights(stream_));
  output_norm_.resize(config_.hidden_size);
  CopyOut(output_norm_.data(), weights_.output_norm, output_norm_.size() * sizeof(float), stream_);
  info_ = {.name = "cuda",
           .vocab_size = config_.vocab_size,
           .hidden_size = config_.hidden_size,
           .page_tokens = options_.page_tokens,
           .total_pages = options_.total_pages,
           .max_batch_tokens = options_.max_batch_tokens,
           .max_batch_members = options_.max_batch_members,
           .max_positions = config_.context_length,
           .batches_in_flight = 2,
           .leaves_processors = true,
           .adapters = AdapterShapeOf(config_)};
  if (options_.max_positions != 0) {
    info_.max_positions = std::min(options_.max_positions, info_.max_positions);
  }
  const DeviceShape shape(config_);
  StepRunner::Options forward{.max_rows = options_.max_batch_tokens,
                              .processors = device->processors,
                              .deterministic = options_.deterministic,
                              .skip_products = options_.skip_products,
                              .skip_attention = options_.skip_attention};
  uint32_t fixed_cut = 0;
  if (options_.deterministic) {  // every row may have as many parts as the longest sequence needs
    const uint64_t rows = options_.max_batch_tokens;
    const uint64_t most = uint64_t{info_.max_positions} * rows / kMostFixedParts;
    fixed_cut = static_cast<uint32_t>(
        std::max<uint64_t>(kLeastCut, (most + kKeyBlock - 1) / kKeyBlock * kKeyBlock));
    forward.max_parts =
        static_cast<uint32_t>(rows * ((info_.max_positions + fixed_cut - 1) / fixed_cut));
  }
  runner_ = PIE_TRY(StepRunner::Make(config_, weights_, forward, blas_.get(), stream_));
  builder_ = std::make_unique<StepBuilder>(
      StepShape{.page_tokens = options_.page_tokens,
                .vocab = config_.vocab_size,
                .group = config_.heads / config_.kv_heads,
                .kv_heads = config_.kv_heads,
                .large_lines = LargeTileLines(shape.head_stride),
                .processors = static_cast<uint32_t>(device->processors),
                .max_parts = forward.max_parts,
                .max_members = options_.max_batch_members,
                .fixed_cut = fixed_cut});
  chosen_ = static_cast<uint32_t*>(PIE_TRY(memory_.Take(
      uint64_t{StepBuilder::kRing} * options_.max_batch_members * sizeof(uint32_t), "tokens")));
  done_ = static_cast<uint64_t*>(AllocatePinned(64));
  if (done_ == nullptr) return Fail(Code::kExhausted, "the machine has no memory left to pin");
  *done_ = 0;
  PIE_RETURN_IF_ERROR(Reserve({}));
  PIE_RETURN_IF_ERROR(AllocatePages(free_before));
  info_.layout =
      fmt::format("{}, {} layers, {} heads of {}, {} tokens a page, rope {}{}",
                  options_.kv == CudaKv::kFp8 ? "fp8" : "bf16", config_.layers, config_.kv_heads,
                  shape.head_stride, info_.page_tokens,
                  config_.rope.factors == config_.rope.long_factors ? "long" : "short",
                  options_.weights == CudaWeights::kFp8 ? ", weights rounded to fp8" : "");
  info_.fingerprint = std::move(fingerprint);
  if (options_.graphs) WarmUp();
  return Check(name.c_str());
}

Status DeviceBackend::AllocatePages(size_t free_before) {
  const DeviceShape shape(config_);
  KvShape kv{.page_tokens = info_.page_tokens,
             .page_shift = std::has_single_bit(info_.page_tokens)
                               ? static_cast<uint32_t>(std::countr_zero(info_.page_tokens))
                               : kNone,
             .kv_heads = config_.kv_heads,
             .head_stride = shape.head_stride,
             .fp8 = options_.kv == CudaKv::kFp8};
  info_.page_bytes = kv.page_bytes = config_.layers * kv.layer_bytes();
  if (info_.total_pages == 0) {
    const auto budget = static_cast<uint64_t>(static_cast<double>(free_before) *
                                              std::clamp(options_.memory_share, 0.0, 1.0));
    const uint64_t used = free_before - FreeMemory();
    const uint64_t room = budget > used ? (budget - used) / info_.page_bytes : 0;
    if (room == 0) {
      return Fail(Code::kExhausted,
                  "the device's memory is too small: weights and activations take {} of {} MB, and "
                  "{} MB more are needed for one KV page; raise gpu_mem_utilization, or lower "
                  "max_forward_tokens or kv_page_size",
                  used >> 20, budget >> 20, ((used + info_.page_bytes - budget) >> 20) + 1);
    }
    info_.total_pages = static_cast<uint32_t>(std::min<uint64_t>(room, kMostPages));
  }
  const uint64_t bytes = info_.page_bytes * info_.total_pages;
  pages_ = static_cast<std::byte*>(PIE_TRY(memory_.Take(bytes, "KV pages; lower total_pages")));
  Fill(pages_, 0, bytes, stream_);
  kv.data = pages_;
  runner_->SetPages(kv, info_.total_pages);
  health_->limit_ms = options_.step_limit_ms;
  transfers_ = std::make_unique<PageTransfers>(stream_, pages_, info_.page_bytes, info_.total_pages,
                                               info_.page_tokens, health_);
  info_.read_bytes = PageTransfers::kReadBytes;
  info_.write_bytes = PageTransfers::kWriteBytes;
  return runner_->PrepareResident();
}

// Makes room for a step's inputs and outputs. A buffer that grows moves, so graphs are recorded
// again.
Status DeviceBackend::Reserve(const StepPlan& plan) {
  const bool grows = step_ == nullptr || plan.bytes.size() > step_bytes_ ||
                     plan.tokens > output_tokens_ || plan.values > output_values_;
  if (!grows) return {};
  // Allocates all new buffers before it frees the old ones, so that only the batch that does not
  // fit fails.
  const size_t bytes = std::max({kStepBytes, step_bytes_, plan.bytes.size() * 2});
  const uint32_t tokens = std::max({kOutputTokens, output_tokens_, plan.tokens * 2});
  const uint32_t values = std::max({kOutputValues, output_values_, plan.values * 2});
  std::byte* step = step_;
  if (step == nullptr || bytes > step_bytes_) {
    step = static_cast<std::byte*>(PIE_TRY(memory_.Take(bytes, "a step's inputs")));
  }
  std::byte* staging[StepBuilder::kRing] = {};
  SamplingOutput outputs[StepBuilder::kRing];
  bool complete = true;
  for (uint32_t i = 0; i < StepBuilder::kRing; ++i) {
    staging[i] = static_cast<std::byte*>(AllocatePinned(bytes));
    outputs[i].tokens = static_cast<uint32_t*>(AllocatePinned(size_t{tokens} * 4));
    outputs[i].values = static_cast<float*>(AllocatePinned(size_t{values} * 4));
    complete = complete && staging[i] != nullptr && outputs[i].tokens != nullptr &&
               outputs[i].values != nullptr;
  }
  if (complete) {
    if (!flights_.empty()) Synchronize(stream_);
    for (uint32_t i = 0; i < StepBuilder::kRing; ++i) {
      // The outputs of a batch in flight, which were not read yet, move along.
      if (outputs_[i].tokens != nullptr) {
        std::memcpy(outputs[i].tokens, outputs_[i].tokens, size_t{output_tokens_} * 4);
        std::memcpy(outputs[i].values, outputs_[i].values, size_t{output_values_} * 4);
      }
      std::swap(staging[i], staging_[i]);
      std::swap(outputs[i], outputs_[i]);
    }
  }
  for (uint32_t i = 0; i < StepBuilder::kRing; ++i) {
    FreePinned(staging[i]);
    FreePinned(outputs[i].tokens);
    FreePinned(outputs[i].values);
  }
  if (!complete) return Fail(Code::kExhausted, "the machine has no memory left to pin");
  for (const auto& [key, graph] : graphs_) {
    if (graph != nullptr) DestroyGraph(graph);
  }
  graphs_.clear();
  step_ = step;
  step_bytes_ = bytes;
  output_tokens_ = tokens;
  output_values_ = values;
  Fill(step_, 0, step_bytes_, stream_);
  runner_->SetStep(reinterpret_cast<const StepHeader*>(step_));
  return {};
}

std::optional<DeviceBackend::Bucket> DeviceBackend::BucketOf(const StepPlan& plan) const {
  if (!options_.graphs || !plan.host_reads.empty() || !plan.state_rows.empty() ||
      plan.has_adapters || plan.header().probes > 0 || plan.rows == 0 ||
      plan.reads * 2 < plan.rows) {
    return std::nullopt;
  }
  const auto* const rows = std::ranges::lower_bound(kBuckets, plan.rows);
  if (rows == std::end(kBuckets) || *rows > options_.max_batch_tokens) return std::nullopt;
  return Bucket{
      .rows = *rows, .large_tiles = plan.has_large_tiles, .partial_results = plan.has_parts};
}

SamplingInputs DeviceBackend::SamplingOf(uint32_t first_read) const {
  SamplingInputs sampling{.step = reinterpret_cast<const StepHeader*>(step_),
                          .logits = runner_->logits(),
                          .stride = runner_->logit_stride(),
                          .vocab = config_.vocab_size,
                          .first_read = first_read,
                          .chosen = chosen_};
  std::ranges::copy(outputs_, sampling.outputs);
  return sampling;
}

void DeviceBackend::LaunchBucket(const Bucket& bucket) {
  if (bucket.rows == 1 && !bucket.large_tiles && runner_->has_resident()) {
    runner_->RunResident(chosen_);
  } else {
    runner_->RunLayers({.count = bucket.rows,
                        .large_tiles = bucket.large_tiles,
                        .partial_results = bucket.partial_results},
                       chosen_);
    runner_->RunLogits(0, bucket.rows);
  }
  RunSamples(SamplingOf(0), 0, kNone, bucket.rows, stream_);
  RunPublish(reinterpret_cast<const StepHeader*>(step_), done_, stream_);
}

Graph DeviceBackend::Record(const Bucket& bucket) {
  BeginCapture(stream_);
  LaunchBucket(bucket);
  return EndCapture(stream_);
}

// An empty step is run for every bucket: it chooses products by measurement, loads all kernels, and
// is then recorded.
void DeviceBackend::WarmUp() {
  Synchronize(stream_);
  for (const uint32_t rows : kBuckets) {
    if (rows > options_.max_batch_tokens) break;
    runner_->Tune(rows);
    LaunchBucket({.rows = rows, .large_tiles = true, .partial_results = true});
    Synchronize(stream_);
    for (const bool parts : {false, true}) {
      const Bucket bucket{.rows = rows, .partial_results = parts};
      graphs_[bucket] = Record(bucket);
    }
  }
  runner_->Tune(options_.max_batch_tokens);
  Synchronize(stream_);
}

void DeviceBackend::LaunchStep(Flight& flight, const std::optional<Bucket>& bucket) {
  const StepPlan& plan = flight.plan;
  const StepHeader& header = plan.header();
  if (header.page_copies > 0) {
    RunPageCopies(pages_, info_.page_bytes,
                  reinterpret_cast<const uint32_t*>(step_ + header.copies), header.page_copies,
                  stream_);
  }
  if (bucket) {
    Graph& graph = graphs_[*bucket];
    if (graph == nullptr) graph = Record(*bucket);
    if (graph != nullptr) RunGraph(graph, stream_);
    return;
  }
  if (plan.rows > 0) {
    runner_->RunLayers({.count = plan.rows,
                        .small_tiles = header.small_tiles > 0,
                        .large_tiles = plan.has_large_tiles,
                        .partial_results = plan.has_parts,
                        .adapters = plan.has_adapters,
                        .parts = plan.adapter_parts},
                       chosen_);
  }
  const auto* const items = ArrayOf<SampleItem>(&header, header.sample_items);
  const auto* const probes = ArrayOf<ProbeItem>(&header, header.probe_items);
  uint32_t item = 0;
  uint32_t probe = 0;
  size_t on_host = 0;
  flight.states.resize(plan.state_rows.size() * config_.hidden_size);
  for (size_t i = 0; i < plan.state_rows.size(); ++i) {
    CopyOut(flight.states.data() + i * config_.hidden_size, runner_->state_of(plan.state_rows[i]),
            uint64_t{config_.hidden_size} * sizeof(float), stream_);
  }
  flight.logits.resize(plan.host_reads.size() * config_.vocab_size);
  for (uint32_t first = 0; first < plan.reads; first += StepRunner::kLogitRows) {
    const uint32_t count = std::min(StepRunner::kLogitRows, plan.reads - first);
    runner_->RunLogits(first, count, plan.adapter_parts.head);
    uint32_t items_end = item;
    while (items_end < header.items && items[items_end].read < first + count) ++items_end;
    uint32_t probes_end = probe;
    while (probes_end < header.probes && probes[probes_end].read < first + count) ++probes_end;
    const SamplingInputs sampling = SamplingOf(first);
    if (items_end > item) RunSamples(sampling, item, items_end - item, items_end - item, stream_);
    RunProbes(sampling, probe, probes_end - probe, stream_);
    item = items_end;
    probe = probes_end;
    for (; on_host < plan.host_reads.size() && plan.host_reads[on_host] < first + count;
         ++on_host) {
      const uint64_t row = plan.host_reads[on_host] - first;
      CopyOut(flight.logits.data() + on_host * config_.vocab_size,
              runner_->logits() + row * runner_->logit_stride(),
              uint64_t{config_.vocab_size} * sizeof(float), stream_);
    }
  }
  RunPublish(reinterpret_cast<const StepHeader*>(step_), done_, stream_);
}

// CUDA remembers the current device for each thread.
void DeviceBackend::Enter() {
  const std::thread::id now = std::this_thread::get_id();
  if (thread_ == now) return;
  OpenDevice(options_.device);
  thread_ = now;
}

Result<Backend::Ticket> DeviceBackend::Submit(const Batch& batch) {
  Enter();
  PIE_RETURN_IF_ERROR(Alive());
  PIE_CHECK(flights_.size() < info_.batches_in_flight);
  PIE_CHECK(batch.tokens.size() <= info_.max_batch_tokens &&
            batch.members.size() <= info_.max_batch_members);
  for (const PageId page : batch.pages) PIE_CHECK(page.value < info_.total_pages);
  for (const PageCopy& copy : batch.copies) {
    PIE_CHECK(copy.from.value < info_.total_pages && copy.to.value < info_.total_pages &&
              copy.from != copy.to);
  }
  const Ticket ticket = ++ticket_;
  Flight& flight = flights_.emplace_back();
  flight.ticket = ticket;
  flight.batch = &batch;
  builder_->Build(batch, ticket, flight.plan);
  if (Status status = Reserve(flight.plan); !status) {
    flights_.pop_back();
    return std::unexpected(status.error());
  }
  transfers_->Precede(batch);
  std::byte* const staging = staging_[ticket % StepBuilder::kRing];
  std::memcpy(staging, flight.plan.bytes.data(), flight.plan.bytes.size());
  CopyIn(step_, staging, flight.plan.bytes.size(), stream_);
  LaunchStep(flight, BucketOf(flight.plan));
  if (Status status = Check("a batch could not be started"); !status) {
    flights_.pop_back();
    return std::unexpected(status.error());
  }
  return ticket;
}

// Asks CUDA for errors. After one, the device is lost: everything fails.
Status DeviceBackend::Check(const char* what) {
  const std::string error = TakeError();
  if (error.empty()) return {};
  return Lose(fmt::format("{}: {}", what, error));
}

// Takes the device out of service: everything fails at once from now on, with the first reason,
// since later errors follow from it.
Status DeviceBackend::Lose(const std::string& why) {
  if (failure_.empty()) {
    failure_ = fmt::format("the CUDA device failed: {}; restart the engine", why);
  }
  health_->lost = true;
  return Alive();
}

Status DeviceBackend::Alive() const {
  if (failure_.empty()) return {};
  return Fail(Code::kInternal, "{}", failure_);
}

Result<DeviceAdapterPtr> DeviceBackend::LoadAdapter(const AdapterWeights& weights) const {
  if (health_->lost) {  // the device may never answer
    return Fail(Code::kUnavailable, "the CUDA device failed; restart the engine");
  }
  if (const std::string error = OpenDevice(options_.device); !error.empty()) {
    return Fail(Code::kUnavailable, "the CUDA device cannot be opened: {}", error);
  }
  return PIE_TRY(MakeDeviceAdapter(weights, config_));
}

Status DeviceBackend::ReadPage(PageId page, std::span<std::byte> content) {
  PIE_RETURN_IF_ERROR(Alive());
  Enter();
  PIE_CHECK(page.value < info_.total_pages && content.size() == info_.page_bytes);
  transfers_->PrecedeAll();
  CopyOut(content.data(), pages_ + page.value * info_.page_bytes, content.size(), stream_);
  Synchronize(stream_);
  return Check("a page could not be read");
}

Status DeviceBackend::WritePage(PageId page, std::span<const std::byte> content) {
  PIE_RETURN_IF_ERROR(Alive());
  Enter();
  PIE_CHECK(page.value < info_.total_pages && content.size() == info_.page_bytes);
  transfers_->PrecedeAll();
  CopyIn(pages_ + page.value * info_.page_bytes, content.data(), content.size(), stream_);
  Synchronize(stream_);
  return Check("a page could not be written");
}

std::vector<const Batch*> DeviceBackend::BatchesInFlight() const {
  std::vector<const Batch*> batches;
  for (const Flight& flight : flights_) batches.push_back(flight.batch);
  return batches;
}

Result<PageContentsPtr> DeviceBackend::ReadPages(std::span<const PageId> pages) {
  PIE_RETURN_IF_ERROR(Alive());
  Enter();
  for (const PageId page : pages) PIE_CHECK(page.value < info_.total_pages);
  PageContentsPtr contents = transfers_->Read(pages, BatchesInFlight());
  PIE_RETURN_IF_ERROR(Check("pages could not be read"));
  return contents;
}

Status DeviceBackend::WritePages(std::span<const PageId> pages, const StoredKv& stored,
                                 uint32_t first) {
  PIE_RETURN_IF_ERROR(Alive());
  Enter();
  for (const PageId page : pages) PIE_CHECK(page.value < info_.total_pages);
  PIE_RETURN_IF_ERROR(transfers_->Write(pages, stored, first, BatchesInFlight()));
  return Check("pages could not be written");
}

}  // namespace pie::cuda
