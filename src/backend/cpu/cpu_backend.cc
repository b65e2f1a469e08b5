#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/adapters/cpu_adapter.h"
#include "backend/cpu/attention/attention.h"
#include "backend/cpu/attention/kv_layer.h"
#include "backend/cpu/layers/transformer.h"
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
      if (members == 1 && CollectAllowedWords(batch.members.front())) {
        ComputeAllowedLogits();
      } else if (!sampled_.empty()) {
        LogitsOf(sampled_.front());  // computes the logits of all rows
      }
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

  // Collects the words of the member's masks that allow a token. False: something else reads the
  // logits, or so many are allowed that it is faster to compute them all. Only a lone member is
  // asked: the masks of several are made by all threads, behind the output layer.
  bool CollectAllowedWords(const Batch::Member& member) {
    constexpr size_t kFewest = 4;  // at most 1 / kFewest of all words
    if (member.masks == nullptr || member.samples == nullptr || sampled_.empty()) return false;
    if (member.adapter != nullptr) return false;  // it may change all logits
    const size_t all = (config_.vocab_size + 31) / 32;
    std::vector<bool> used(all);
    for (const SampleSpec& sample : *member.samples) {
      if (sample.kind >= SampleSpec::kFirstProbe) return false;
      for (const uint32_t row : sample.rows) {
        if (row < member.pass_row || row - member.pass_row >= member.rows) continue;
        const Result<AllowedTokens> mask = Sampling::MaskOf(member, row);
        if (!mask || mask->bits.empty()) return false;  // the sampler reports the error
        for (size_t word = 0; word < std::min(all, mask->bits.size()); ++word) {
          if (mask->bits[word] != 0) used[word] = true;
        }
      }
    }
    words_.clear();
    for (uint32_t word = 0; word < all; ++word) {
      if (used[word]) words_.push_back(word);
    }
    return words_.size() <= all / kFewest;
  }

  void ComputeAllowedLogits() {
    window_begin_ = 0;
    window_end_ = sampled_.size();
    const size_t size = sampled_.size() * config_.vocab_size;
    if (logits_.size() < size) logits_.resize(size);
    transformer_.LogitsOfWords(sampled_, words_, logits_.data());
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
    window_begin_ = window_end_ = 0;
  }

  std::vector<float> EmbeddingOf(uint32_t row) const {
    std::vector<float> state(config_.hidden_size);
    transformer_.Embedding(row, state.data());
    return state;
  }

  std::span<const float> LogitsOf(uint32_t row) {
    const size_t index = std::ranges::lower_bound(sampled_, row) - sampled_.begin();
    if (index < window_begin_ || index >= window_end_) {
      window_begin_ = index / kLogitRows * kLogitRows;
      window_end_ = std::min(window_begin_ + kLogitRows, sampled_.size());
      const size_t count = window_end_ - window_begin_;
      if (logits_.size() < count * config_.vocab_size) logits_.resize(count * config_.vocab_size);
      transformer_.Logits(std::span(sampled_).subspan(window_begin_, count), logits_.data());
    }
    return std::span(logits_).subspan((index - window_begin_) * config_.vocab_size,
                                      config_.vocab_size);
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
  std::vector<uint32_t> words_;    // words of masks, of which only the logits are computed
  std::vector<float> logits_;      // rows sampled_[window_begin_ … window_end_]
  size_t window_begin_ = 0;
  size_t window_end_ = 0;
  BatchOutput output_;
  Ticket ticket_ = 0;
};

uint64_t MachineBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Refuses to allocate more memory than the machine has now, instead of failing when it is written.
Status CheckMemory(const std::string& what, uint64_t bytes) {
  const uint64_t machine = MachineBytes();
  if (bytes <= machine) return {};
  return Fail(Code::kExhausted, "{} need {} MB, but this machine has {} MB", what, bytes >> 20,
              machine >> 20);
}

// One layer of a page, without memory.
KvLayer LayerOf(const ModelConfig& config, const CpuOptions& options) {
  return {.kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .page_tokens = options.page_tokens,
          .type = options.kv_type};
}

Result<BackendInfo> MakeInfo(const ModelConfig& config, const CpuOptions& options) {
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
    info.total_pages =
        static_cast<uint32_t>(std::min<uint64_t>(options.kv_bytes / page_bytes, UINT32_MAX));
    if (info.total_pages == 0) {
      return Fail(Code::kInvalid, "kv_bytes = {} is too small: one page takes {} bytes",
                  options.kv_bytes, page_bytes);
    }
  }
  info.page_bytes = page_bytes;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(page_bytes, info.total_pages, &bytes)) bytes = UINT64_MAX;
  PIE_RETURN_IF_ERROR(CheckMemory(
      fmt::format("{} KV pages of {} tokens", info.total_pages, info.page_tokens), bytes));
  return info;
}

// A model with two sets of rotary factors uses the long ones if the device can hold sequences that
// need them. The choice is made once for all sequences, because keys stay in pages that later and
// longer sequences share.
void ChooseRopeFactors(const BackendInfo& info, RopeConfig& rope) {
  if (rope.long_factors.empty()) return;
  const uint64_t room = uint64_t{info.total_pages} * info.page_tokens;
  if (std::min<uint64_t>(room, info.max_positions) > rope.original_context) {
    rope.factors = rope.long_factors;
  }
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
  BackendInfo info = PIE_TRY(MakeInfo(config, options));
  uint64_t weight_bytes = 0;
  for (const Tensor& tensor : files.tensors().all()) weight_bytes += tensor.data.size();
  PIE_RETURN_IF_ERROR(CheckMemory(fmt::format("the weights of {}", path), weight_bytes));
  ChooseRopeFactors(info, config.rope);
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

}  // namespace pie
