#include "backend/dummy/dummy_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>

#include "backend/page_tokens.h"
#include "backend/sampling.h"
#include "base/brle.h"
#include "base/random.h"
#include "model/dummy_vocab.h"

namespace pie {
namespace {

// Logits are whole multiples of 2^-16 below 2^8, so a float holds them exactly.
constexpr int32_t kOne = 1 << 16;
constexpr int kNoiseBits = 19;  // noise is uniform in [0, 8)

// The logit of a token before the noise. One point matters much in greedy text: there the largest
// of 28 noises wins, and the large ones are all just below 8.
int32_t Bias(uint32_t token) {
  if (token == dummy::kImEnd) return -kOne / 4;  // about one greedy step in eighty
  if (token >= dummy::kByteTokens) return -40 * kOne;
  if (token == ' ') return kOne * 3 / 4;
  constexpr std::string_view kFrequent = "aeinorst";
  constexpr std::string_view kRare = "jqxz";
  if (token >= 'a' && token <= 'z') {
    if (kFrequent.find(static_cast<char>(token)) != std::string_view::npos) return kOne / 4;
    if (kRare.find(static_cast<char>(token)) != std::string_view::npos) return -kOne;
    return 0;
  }
  if (token >= ' ' && token < 0x7F) return -16 * kOne;
  return -24 * kOne;
}

// The same for a token of another vocabulary. Nearly all noises of a large vocabulary are beaten by
// some that is just below 8, so an end that has a little more wins as often as that little is a
// part of 8.
int32_t Bias(DummyToken token, size_t ends) {
  switch (token) {
    case DummyToken::kWord:
      return 0;
    case DummyToken::kText:
      return -16 * kOne;
    case DummyToken::kOther:
      return -24 * kOne;
    case DummyToken::kSpecial:
      return -40 * kOne;
    case DummyToken::kEnd:
      return kOne / 10 / static_cast<int32_t>(std::max<size_t>(ends, 1));
  }
  return 0;
}

uint64_t SlotHash(uint32_t token, uint32_t position) {
  return Mix(token, position);
}

uint64_t Hash(uint64_t hash, const std::vector<float>& numbers) {
  for (const float number : numbers) hash = Mix(hash, std::bit_cast<uint32_t>(number + 0.0F));
  return hash;
}

class DummyAdapter final : public DeviceAdapter {
 public:
  explicit DummyAdapter(const AdapterWeights& weights) : bytes_(weights.parameters() * 4) {
    uint64_t part_number = 0;
    for (const AdapterWeights::Layer& layer : weights.layers) {
      for (const LowRank& part : layer) {
        ++part_number;
        if (part.rank == 0 || part.scale == 0) continue;
        has_parts_ = true;
        const bool is_zero = std::ranges::all_of(part.b, [](float b) { return b == 0; });
        if (is_zero) continue;
        hash_ = Mix(hash_, part_number, std::bit_cast<uint32_t>(part.scale));
        hash_ = Hash(Hash(hash_, part.a), part.b);
      }
    }
  }
  size_t bytes() const override { return bytes_; }
  // 0: the member's slots are those of the model.
  uint64_t HashWith(int64_t seed, float sigma) const {
    if (seed == 0 || sigma == 0 || !has_parts_) return hash_;
    return Mix(hash_, static_cast<uint64_t>(seed), std::bit_cast<uint32_t>(sigma));
  }

 private:
  const size_t bytes_;
  uint64_t hash_ = 0;
  bool has_parts_ = false;
};

// state → logits. It keeps constants for each token, in blocks that compilers turn into vector
// code: a row of the dummy vocabulary costs about 0.15 µs.
class LogitTable {
 public:
  LogitTable(uint64_t seed, uint32_t vocab_size, const std::vector<DummyToken>& tokens)
      : seed_(seed), vocab_size_(vocab_size), bias_(padded_size()), hash_(padded_size()) {
    const size_t ends = std::ranges::count(tokens, DummyToken::kEnd);
    for (uint32_t id = 0; id < vocab_size; ++id) {
      bias_[id] = tokens.empty() ? Bias(id) : Bias(tokens[id], ends);
      hash_[id] = static_cast<uint32_t>(Mix(id));
    }
  }
  uint32_t vocab_size() const { return vocab_size_; }
  // The size of the buffer that Fill needs.
  size_t padded_size() const { return (vocab_size_ + kBlock - 1) / kBlock * kBlock; }

  // Replaces the first vocab_size() numbers of `buffer`, and the padding.
  std::span<const float> Fill(uint64_t state, std::vector<float>& buffer) const {
    const uint64_t mixed = Mix(seed_, state);
    const auto low = static_cast<uint32_t>(mixed);
    const auto high = static_cast<uint32_t>(mixed >> 32);
    for (size_t block = 0; block < bias_.size(); block += kBlock) {
      const int32_t* bias = &bias_[block];
      const uint32_t* hash = &hash_[block];
      float* logits = &buffer[block];
      for (size_t i = 0; i < kBlock; ++i) {
        uint32_t x = (hash[i] ^ low) * 0x85EBCA6BU;
        x ^= x >> 15;
        x = (x + high) * 0xC2B2AE35U;
        x ^= x >> 16;
        const auto noise = static_cast<int32_t>(x >> (32 - kNoiseBits));
        logits[i] = static_cast<float>(bias[i] + noise) * (1.0F / kOne);
      }
    }
    return std::span(buffer).first(vocab_size_);
  }

 private:
  static constexpr size_t kBlock = 8;
  const uint64_t seed_;
  const uint32_t vocab_size_;
  std::vector<int32_t> bias_;   // [padded]
  std::vector<uint32_t> hash_;  // [padded]
};

constexpr uint32_t kHidden = 8;

// state → embedding. Its numbers are multiples of 2^-16, so a float holds them exactly.
std::vector<float> Embed(uint64_t seed, uint64_t state) {
  const CounterRng rng{Mix(seed, state, kHidden)};
  std::vector<float> embedding(kHidden);
  for (uint32_t i = 0; i < kHidden; ++i) {
    const auto number = static_cast<int32_t>(rng.Bits(i) >> 47) - kOne;
    embedding[i] = static_cast<float>(number) * (1.0F / kOne);
  }
  return embedding;
}

uint64_t StateOf(const std::vector<DummySlot>& attended) {
  uint64_t state = 0;
  for (const DummySlot& slot : attended) state += SlotHash(slot.token, slot.position);
  return state;
}

uint32_t VocabSize(const DummyOptions& options) {
  if (!options.tokens.empty()) return static_cast<uint32_t>(options.tokens.size());
  return std::max(options.vocab_size, dummy::kVocabSize);
}

// A hash of everything that the logits depend on.
std::string FingerprintOf(const DummyOptions& options) {
  uint64_t tokens = 0;
  for (const DummyToken token : options.tokens) tokens = Mix(tokens, static_cast<uint64_t>(token));
  return fmt::format("dummy-{:016x}-{}", Mix(options.seed) ^ tokens, VocabSize(options));
}

uint32_t SlotsPerPage(const DummyOptions& options) {
  return std::max(options.page_tokens, 1U);
}

// A slot is a hash, and a token if there is a script.
size_t SlotBytes(const DummyOptions& options) {
  return sizeof(uint64_t) + (options.script ? sizeof(uint32_t) : 0);
}

// Tokens that a script does not name get logits that are lower by this much.
constexpr float kOutOfReach = 1000;

// Gives the script's tokens all the probability.
void Follow(const std::vector<ScriptedToken>& script, std::vector<float>& logits) {
  for (float& logit : logits) logit -= kOutOfReach;
  for (const ScriptedToken& next : script) logits[next.token] = std::log(next.probability);
}

class DummyBackend final : public Backend {
 public:
  explicit DummyBackend(const DummyOptions& options)
      : options_(options),
        info_{.name = "dummy",
              .vocab_size = VocabSize(options),
              .hidden_size = kHidden,
              .page_tokens = SlotsPerPage(options),
              .total_pages = options.total_pages,
              .max_batch_tokens = std::max(options.max_batch_tokens, 1U),
              .max_batch_members = std::max(options.max_batch_members, 1U),
              .max_positions = options.max_positions,
              .page_bytes = size_t{SlotsPerPage(options)} * SlotBytes(options),
              .memory_bytes = DummyMemoryOf(options),
              .layout = fmt::format("dummy{} u64, {} tokens a page", options.script ? " u32" : "",
                                    SlotsPerPage(options)),
              .fingerprint = FingerprintOf(options),
              .adapters = DummyAdapterShape()},
        table_(options.seed, info_.vocab_size, options.tokens),
        kv_(size_t{info_.total_pages} * info_.page_tokens),
        logits_(table_.padded_size()) {
    if (options.script) tokens_.emplace(info_.total_pages, info_.page_tokens);
  }

  const BackendInfo& info() const override { return info_; }

  Result<Ticket> Submit(const Batch& batch) override {
    PIE_CHECK(batch.carried.empty());
    ready_at_ = std::chrono::steady_clock::now() + std::chrono::microseconds(options_.latency_us);
    ++ticket_;
    for (const PageCopy& copy : batch.copies) {
      std::copy_n(Page(copy.from), info_.page_tokens, Page(copy.to));
    }
    if (tokens_) tokens_->Enter(batch);
    output_ = {};
    output_.slots.resize(batch.members.size());
    for (uint32_t i = 0; i < batch.members.size(); ++i) {
      Status status = Run(batch, batch.members[i], output_.slots[i]);
      if (!status)
        output_.failures.push_back(
            {.member = i, .error = std::move(status.error()), .wrote_kv = true});
    }
    return ticket_;
  }

  Result<BatchOutput> Wait(Ticket ticket) override {
    PIE_CHECK(ticket == ticket_);
    if (options_.latency_us > 0) std::this_thread::sleep_until(ready_at_);
    if (options_.fail_every > 0 && ticket % options_.fail_every == 0) {
      return Fail(Code::kInternal, "the dummy device failed batch {}, as it was told to", ticket);
    }
    return std::move(output_);
  }

  Status ReadPage(PageId page, std::span<std::byte> content) override {
    PIE_CHECK(page.value < info_.total_pages && content.size() == info_.page_bytes);
    std::memcpy(content.data(), Page(page), HashBytes());
    if (tokens_) tokens_->Read(page, content.subspan(HashBytes()));
    return {};
  }
  Status WritePage(PageId page, std::span<const std::byte> content) override {
    PIE_CHECK(page.value < info_.total_pages && content.size() == info_.page_bytes);
    std::memcpy(Page(page), content.data(), HashBytes());
    if (tokens_) tokens_->Write(page, content.subspan(HashBytes()));
    return {};
  }
  Result<DeviceAdapterPtr> LoadAdapter(const AdapterWeights& weights) const override {
    return std::make_shared<DummyAdapter>(weights);
  }

 private:
  size_t HashBytes() const { return size_t{info_.page_tokens} * sizeof(uint64_t); }
  uint64_t* Page(PageId page) { return &kv_[size_t{page.value} * info_.page_tokens]; }

  Status Run(const Batch& batch, const Batch::Member& member, std::vector<Slot>& slots) {
    const auto pages = std::span(batch.pages).subspan(member.first_page, member.pages);
    PIE_CHECK(uint64_t{member.kv_tokens} + member.rows <=
              uint64_t{member.pages} * info_.page_tokens);
    const auto* const adapter = static_cast<const DummyAdapter*>(member.adapter);
    const uint64_t change =
        adapter == nullptr ? 0 : adapter->HashWith(member.zo_seed, member.zo_sigma);
    for (uint32_t i = 0; i < member.rows; ++i) {
      const uint32_t slot = member.kv_tokens + i;
      const uint32_t row = member.first_row + i;
      const uint64_t hash = SlotHash(batch.tokens[row], batch.positions[row]);
      Page(pages[slot / info_.page_tokens])[slot % info_.page_tokens] =
          change == 0 ? hash : Mix(hash, change);
    }
    return sampling_.ReadMember(
        member,
        [&](uint32_t row) {
          const auto logits = table_.Fill(State(pages, member, row), logits_);
          if (tokens_) {
            const auto next = options_.script(tokens_->Attended(batch, member, row));
            if (!next.empty()) Follow(next, logits_);
          }
          return logits;
        },
        [&](uint32_t row) { return Embed(options_.seed, State(pages, member, row)); }, slots);
  }

  uint64_t State(std::span<const PageId> pages, const Batch::Member& member, uint32_t row) {
    const uint32_t causal_end = member.kv_tokens + row + 1;
    const uint32_t mask_row = member.pass_row + row;
    if (member.attention == nullptr || mask_row >= member.attention->size()) {
      return Sum(pages, 0, causal_end);
    }
    uint64_t state = 0;
    ForEachTrueRun((*member.attention)[mask_row], causal_end,
                   [&](uint32_t begin, uint32_t end) { state += Sum(pages, begin, end); });
    return state;
  }

  uint64_t Sum(std::span<const PageId> pages, uint32_t begin, uint32_t end) {
    uint64_t sum = 0;
    while (begin < end) {
      const uint32_t offset = begin % info_.page_tokens;
      const uint32_t count = std::min(end - begin, info_.page_tokens - offset);
      const uint64_t* slots = Page(pages[begin / info_.page_tokens]) + offset;
      for (uint32_t i = 0; i < count; ++i) sum += slots[i];
      begin += count;
    }
    return sum;
  }

  const DummyOptions options_;
  const BackendInfo info_;
  const LogitTable table_;
  std::vector<uint64_t> kv_;          // [total_pages, page_tokens]
  std::optional<PageTokens> tokens_;  // if there is a script
  std::vector<float> logits_;         // [padded vocab], of the row being read
  Sampling sampling_;
  BatchOutput output_;
  Ticket ticket_ = 0;
  std::chrono::steady_clock::time_point ready_at_;
};

}  // namespace

AdapterShape DummyAdapterShape() {
  constexpr uint32_t kFfn = 16;
  AdapterShape shape{.layers = 2};
  shape.targets.fill({kHidden, kHidden});
  shape.targets[static_cast<size_t>(AdapterTarget::kGate)] = {kHidden, kFfn};
  shape.targets[static_cast<size_t>(AdapterTarget::kUp)] = {kHidden, kFfn};
  shape.targets[static_cast<size_t>(AdapterTarget::kDown)] = {kFfn, kHidden};
  return shape;
}

uint64_t DummyMemoryOf(const DummyOptions& options) {
  return uint64_t{options.total_pages} * SlotsPerPage(options) * SlotBytes(options);
}

std::unique_ptr<Backend> MakeDummyBackend(DummyOptions options) {
  return std::make_unique<DummyBackend>(options);
}

std::vector<float> DummyLogits(const DummyOptions& options,
                               const std::vector<DummySlot>& attended) {
  const uint64_t state = StateOf(attended);
  const LogitTable table(options.seed, VocabSize(options), options.tokens);
  std::vector<float> logits(table.padded_size());
  table.Fill(state, logits);
  logits.resize(table.vocab_size());
  return logits;
}

std::vector<float> DummyEmbedding(const DummyOptions& options,
                                  const std::vector<DummySlot>& attended) {
  return Embed(options.seed, StateOf(attended));
}

}  // namespace pie
