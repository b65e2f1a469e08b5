#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/adapters/cpu_adapter.h"
#include "backend/cpu/attention/attention.h"
#include "backend/cpu/attention/kv_layer.h"
#include "backend/cpu/layers/transformer.h"
#include "backend/cpu/logit_plan.h"
#include "backend/cpu/machine/arena.h"
#include "backend/cpu/machine/prefault.h"
#include "backend/cpu/machine/thread_pool.h"
#include "backend/sampling.h"
#include "model/config.h"
#include "model/fingerprint.h"
#include "model/model_files.h"

namespace pie {
namespace {

using cpu::KvLayer;

// Rows whose logits are in memory at a time: enough that a step usually reads the output layer
// once, and few enough that scoring a long prompt does not take gigabytes.
constexpr size_t kLogitRows = 64;

constexpr size_t kNowhere = SIZE_MAX;

// The keys and values of all layers. A page holds all layers together, so that copying a page is
// one copy.
class KvPages {
 public:
  static Result<KvPages> Make(KvLayer layer, uint32_t layers, uint32_t pages) {
    KvPages kv;
    kv.pages_ = pages;
    kv.page_bytes_ = layer.PageBytes() * layers;
    layer.page_stride = kv.page_bytes_;
    kv.arena_ = std::make_unique<cpu::Arena>();
    kv.data_ = PIE_TRY(kv.arena_->Allocate(kv.page_bytes_ * pages));
    for (uint32_t i = 0; i < layers; ++i) {
      layer.data = kv.data_ + i * layer.PageBytes();
      kv.layers_.push_back(layer);
    }
    return kv;
  }

  std::span<const KvLayer> layers() const { return layers_; }
  void Copy(PageId from, PageId to) {
    PIE_CHECK(from.value < pages_ && to.value < pages_ && from != to);
    std::memcpy(data_ + to.value * page_bytes_, data_ + from.value * page_bytes_, page_bytes_);
  }
  std::span<std::byte> all() const { return {data_, page_bytes_ * pages_}; }
  // A page of all layers as it lies in memory.
  std::span<std::byte> Page(PageId page) const {
    PIE_CHECK(page.value < pages_);
    return {data_ + page.value * page_bytes_, page_bytes_};
  }

 private:
  KvPages() = default;

  std::unique_ptr<cpu::Arena> arena_;
  std::byte* data_ = nullptr;  // [pages, layers, keys and values of a page]
  size_t page_bytes_ = 0;
  uint32_t pages_ = 0;
  std::vector<KvLayer> layers_;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(const ModelConfig& config, cpu::Weights weights, KvPages kv, BackendInfo info,
             const CpuOptions& options)
      : config_(config),
        weights_(std::move(weights)),
        kv_(std::move(kv)),
        info_(std::move(info)),
        pool_(options.threads == 0 ? cpu::ThreadPool::AvailableCpus() : options.threads),
        transformer_(config_, weights_, options.level, pool_) {
    if (options.prefault_bytes > 0) prefault_ = cpu::Prefault(kv_.all(), options.prefault_bytes);
  }

  const BackendInfo& info() const override { return info_; }

  Result<Ticket> Submit(const Batch& batch) override {
    for (PageId page : batch.pages) PIE_CHECK(page.value < info_.total_pages);
    for (const PageCopy& copy : batch.copies) kv_.Copy(copy.from, copy.to);
    CollectReadRows(batch);
    transformer_.Run(batch, kv_.layers(), read_);
    output_ = {};
    output_.slots.resize(batch.members.size());
    ReadMembers(batch);
    return ++ticket_;
  }

  Result<BatchOutput> Wait(Ticket ticket) override {
    PIE_CHECK(ticket == ticket_);
    return std::move(output_);
  }

  Status ReadPage(PageId page, std::span<std::byte> content) override {
    PIE_CHECK(content.size() == info_.page_bytes);
    std::memcpy(content.data(), kv_.Page(page).data(), content.size());
    return {};
  }
  Status WritePage(PageId page, std::span<const std::byte> content) override {
    PIE_CHECK(content.size() == info_.page_bytes);
    std::memcpy(kv_.Page(page).data(), content.data(), content.size());
    return {};
  }

  Result<DeviceAdapterPtr> LoadAdapter(const AdapterWeights& weights) const override {
    return std::make_shared<cpu::CpuAdapter>(cpu::DetectCpuLevel(), weights, config_);
  }

  void SetMeanwhile(const std::shared_ptr<Meanwhile>& meanwhile) override {
    pool_.SetMeanwhile(meanwhile);
  }

 private:
  void ReadMembers(const Batch& batch) {
    const auto members = static_cast<uint32_t>(batch.members.size());
    statuses_.assign(members, {});
    const auto read = [&](uint32_t i, Sampling& sampling) {
      const Batch::Member& member = batch.members[i];
      statuses_[i] = sampling.ReadMember(
          member, [&](uint32_t row) { return LogitsOf(member.first_row + row); },
          [&](uint32_t row) { return EmbeddingOf(member.first_row + row); }, output_.slots[i]);
    };
    if (sampled_.size() > kLogitRows) {  // the output layer runs in between and uses all threads
      for (uint32_t i = 0; i < members; ++i) read(i, samplings_.front());
    } else {
      ComputeLogits(batch);
      const auto parts = std::min(static_cast<uint32_t>(samplings_.size()), members);
      pool_.ParallelFor(parts, [&](uint32_t part) {
        for (uint32_t i = part; i < members; i += parts) read(i, samplings_[part]);
      });
    }
    for (uint32_t i = 0; i < members; ++i) {
      if (statuses_[i]) continue;
      output_.failures.push_back(
          {.member = i, .error = std::move(statuses_[i].error()), .wrote_kv = true});
    }
  }

  // Computes the logits of all sampled rows, as far as their members read them.
  void ComputeLogits(const Batch& batch) {
    if (sampled_.empty()) return;
    plan_.Make(batch, sampled_, pool_);
    Reserve(sampled_.size());
    if (!plan_.whole().empty()) transformer_.Logits(plan_.whole(), logits_.data());
    if (!plan_.narrow().empty()) {
      float* const out = logits_.data() + plan_.whole().size() * config_.vocab_size;
      transformer_.LogitsOfWords(plan_.narrow(), plan_.words(), out);
    }
    Place(plan_.whole(), 0);
    Place(plan_.narrow(), plan_.whole().size());
  }

  // Computes the logits of the window of rows around sampled_[index].
  void ComputeWindow(size_t index) {
    std::ranges::fill(places_, kNowhere);
    const size_t begin = index / kLogitRows * kLogitRows;
    const auto rows =
        std::span(sampled_).subspan(begin, std::min(kLogitRows, sampled_.size() - begin));
    Reserve(rows.size());
    transformer_.Logits(rows, logits_.data());
    Place(rows, 0);
  }

  void Reserve(size_t rows) {
    const size_t size = rows * config_.vocab_size;
    if (logits_.size() < size) logits_.resize(size);
  }

  // Notes that the logits of `rows` are in logits_, from row `first` on.
  void Place(std::span<const uint32_t> rows, size_t first) {
    for (size_t i = 0; i < rows.size(); ++i) places_[IndexOf(rows[i])] = first + i;
  }

  size_t IndexOf(uint32_t row) const {
    return std::ranges::lower_bound(sampled_, row) - sampled_.begin();
  }

  // Collects the rows of the batch that some member reads, and those of them whose logits it reads,
  // in order.
  void CollectReadRows(const Batch& batch) {
    read_.clear();
    sampled_.clear();
    for (const Batch::Member& member : batch.members) {
      if (member.samples == nullptr) continue;
      for (const SampleSpec& sample : *member.samples) {
        for (uint32_t row : sample.rows) {
          const uint32_t own = row - member.pass_row;
          if (row >= member.pass_row && own < member.rows) {
            read_.push_back(member.first_row + own);
            if (ReadsLogits(sample)) sampled_.push_back(member.first_row + own);
          }
        }
      }
    }
    for (std::vector<uint32_t>* rows : {&read_, &sampled_}) {
      std::ranges::sort(*rows);
      const auto [rest, end] = std::ranges::unique(*rows);
      rows->erase(rest, end);
    }
    places_.assign(sampled_.size(), kNowhere);
  }

  std::vector<float> EmbeddingOf(uint32_t row) const {
    std::vector<float> state(config_.hidden_size);
    transformer_.Embedding(row, state.data());
    return state;
  }

  std::span<const float> LogitsOf(uint32_t row) {
    const size_t index = IndexOf(row);
    if (places_[index] == kNowhere) ComputeWindow(index);
    return std::span(logits_).subspan(places_[index] * config_.vocab_size, config_.vocab_size);
  }

  const ModelConfig config_;
  const cpu::Weights weights_;
  KvPages kv_;
  cpu::Prefault prefault_;  // of kv_
  const BackendInfo info_;
  cpu::ThreadPool pool_;
  cpu::Transformer transformer_;
  // More samplers than threads, so that a late thread takes fewer members.
  std::vector<Sampling> samplings_ = std::vector<Sampling>(size_t{4} * pool_.threads());
  std::vector<Status> statuses_;   // of the members
  std::vector<uint32_t> read_;     // rows of the batch that are read
  std::vector<uint32_t> sampled_;  // rows of the batch whose logits are read
  cpu::LogitPlan plan_{config_.vocab_size};
  std::vector<float> logits_;   // of some rows, [rows, vocabulary]
  std::vector<size_t> places_;  // of the rows of sampled_ in logits_, or kNowhere
  BatchOutput output_;
  Ticket ticket_ = 0;
};

constexpr uint64_t kUsualKvBytes = uint64_t{1} << 30;

// One layer of a page, without memory.
KvLayer LayerOf(const ModelConfig& config, const CpuOptions& options) {
  return {.kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .page_tokens = options.page_tokens,
          .type = options.kv_type};
}

Result<BackendInfo> MakeInfo(const ModelFiles& files, const CpuOptions& options) {
  const ModelConfig& config = files.config();
  uint64_t weight_bytes = 0;
  for (const Tensor& tensor : files.tensors().all()) weight_bytes += tensor.data.size();
  BackendInfo info{.name = "cpu",
                   .vocab_size = config.vocab_size,
                   .hidden_size = config.hidden_size,
                   .page_tokens = options.page_tokens,
                   .total_pages = options.total_pages,
                   .max_batch_tokens = options.max_batch_tokens,
                   .max_batch_members = options.max_batch_members,
                   .max_positions = config.context_length};
  if (info.page_tokens == 0 || info.max_batch_tokens == 0 || info.max_batch_members == 0) {
    return Fail(Code::kInvalid,
                "page_tokens, max_batch_tokens and max_batch_members must be at least 1");
  }
  if (options.max_positions != 0) {
    info.max_positions = std::min(options.max_positions, info.max_positions);
  }
  const uint64_t page_bytes = uint64_t{config.layers} * LayerOf(config, options).PageBytes();
  if (info.total_pages == 0) {
    const uint64_t left = options.memory_bytes - std::min(weight_bytes, options.memory_bytes);
    const uint64_t kv_bytes =
        options.kv_bytes != 0 ? options.kv_bytes : std::min(kUsualKvBytes, left / 4);
    // Where there is no room for a page, one page is refused below, with its size.
    const bool given = options.kv_bytes != 0;
    info.total_pages = static_cast<uint32_t>(
        std::clamp<uint64_t>(kv_bytes / page_bytes, given ? 0 : 1, UINT32_MAX));
    if (info.total_pages == 0) {
      return Fail(Code::kInvalid, "kv_bytes = {} is too small: one page takes {} bytes", kv_bytes,
                  page_bytes);
    }
  }
  info.page_bytes = page_bytes;
  // Memory that the machine does not have is refused now, and not when it is written.
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(page_bytes, info.total_pages, &bytes) ||
      __builtin_add_overflow(bytes, weight_bytes, &bytes)) {
    bytes = UINT64_MAX;
  }
  if (bytes > options.memory_bytes) {
    return Fail(Code::kExhausted,
                "the weights of {} need {} MiB and {} KV pages of {} tokens need {} MiB, but this "
                "machine has {} MiB for them; lower total_pages or kv_page_size, use a smaller "
                "model, or give the engine more memory",
                files.name(), weight_bytes >> 20, info.total_pages, info.page_tokens,
                (bytes - weight_bytes) >> 20, options.memory_bytes >> 20);
  }
  info.memory_bytes = bytes;
  return info;
}

}  // namespace

Result<std::unique_ptr<Backend>> MakeCpuBackend(const std::string& path,
                                                const CpuOptions& options) {
  const ModelFiles files = PIE_TRY(ModelFiles::Open(path));
  ModelConfig config = files.config();
  if (config.head_dim > cpu::Attention::kMaxHeadDim) {
    return Fail(Code::kUnavailable,
                "{}: the heads have {} dimensions; the CPU backend supports at most {}", path,
                config.head_dim, cpu::Attention::kMaxHeadDim);
  }
  BackendInfo info = PIE_TRY(MakeInfo(files, options));
  const uint64_t room = uint64_t{info.total_pages} * info.page_tokens;
  ChooseFactors(std::min<uint64_t>(room, info.max_positions), config.rope);
  info.layout = fmt::format("{}, {} layers, {} heads of {}, {} tokens a page, rope {}",
                            NameOf(options.kv_type), config.layers, config.kv_heads,
                            config.head_dim, info.page_tokens,
                            config.rope.factors == config.rope.long_factors ? "long" : "short");
  info.fingerprint = FingerprintOf(files);
  info.adapters = AdapterShapeOf(config);
  KvPages kv = PIE_TRY(KvPages::Make(LayerOf(config, options), config.layers, info.total_pages));
  cpu::Weights weights = PIE_TRY(cpu::LoadWeights(files, options.progress));
  PIE_RETURN_IF_ERROR(files.CheckWhole());
  return std::make_unique<CpuBackend>(config, std::move(weights), std::move(kv), std::move(info),
                                      options);
}

Result<uint64_t> CpuMemoryOf(const std::string& path, const CpuOptions& options) {
  const ModelFiles files = PIE_TRY(ModelFiles::Open(path));
  return PIE_TRY(MakeInfo(files, options)).memory_bytes;
}

}  // namespace pie
