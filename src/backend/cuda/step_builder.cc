#include "backend/cuda/step_builder.h"

#include <algorithm>
#include <cstring>

#include "backend/sampling.h"
#include "backend/softmax.h"
#include "base/random.h"
#include "base/result.h"

namespace pie::cuda {
namespace {

// Appends an array to the step's bytes and returns its offset. Arrays begin at multiples of 16.
template <class T>
uint32_t Append(std::vector<std::byte>& bytes, std::span<const T> array) {
  const size_t at = (bytes.size() + 15) / 16 * 16;
  bytes.resize(at + array.size_bytes());
  if (!array.empty()) std::memcpy(bytes.data() + at, array.data(), array.size_bytes());
  return static_cast<uint32_t>(at);
}
template <class T>
uint32_t Append(std::vector<std::byte>& bytes, const std::vector<T>& array) {
  return Append(bytes, std::span<const T>(array));
}

// Sorts the numbers, and removes duplicates.
void SortOut(std::vector<uint32_t>& numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// The index of a number in a sorted list that contains it.
uint32_t IndexOf(const std::vector<uint32_t>& sorted, uint32_t number) {
  return static_cast<uint32_t>(std::ranges::lower_bound(sorted, number) - sorted.begin());
}

}  // namespace

DrawKey DrawKeyOf(const Batch::Member& member, uint32_t row) {
  if (member.draws == nullptr || row < member.first_draw) return {member.seed, row};
  return (*member.draws)[row - member.first_draw];
}

uint32_t MaskIndexOf(const Batch::Member& member, uint32_t row) {
  return member.draws == nullptr || row < member.first_draw ? 0 : row - member.first_draw;
}

void StepBuilder::Build(const Batch& batch, BatchTicket ticket, StepPlan& plan) {
  plan.bytes.assign(sizeof(StepHeader), std::byte{0});
  plan.host_reads.clear();
  plan.state_rows.clear();
  plan.failures.clear();
  token_masks_.clear();
  plan.slots.assign(batch.members.size(), {});
  plan.chooses.assign(batch.members.size(), false);
  plan.rows = static_cast<uint32_t>(batch.tokens.size());
  StepHeader header{};
  header.ticket = ticket;
  header.rows = plan.rows;
  header.output = static_cast<uint32_t>(ticket % kRing);
  AddMasks(batch);
  AddRows(batch, header, plan);
  AddTiles(batch, header, plan);
  AddSamples(batch, ticket, header, plan);
  AddAdapters(batch, header, plan);
  std::vector<uint32_t> copies;
  for (const PageCopy& copy : batch.copies) {
    copies.push_back(copy.from.value);
    copies.push_back(copy.to.value);
  }
  header.page_copies = static_cast<uint32_t>(batch.copies.size());
  header.copies = Append(plan.bytes, copies);
  header.masks = Append(plan.bytes, row_masks_);
  header.mask_words = Append(plan.bytes, mask_words_);
  plan.has_large_tiles = header.large_tiles > 0;
  std::memcpy(plan.bytes.data(), &header, sizeof header);
}

void AdapterParts::Add(AdapterTarget target, bool has_experts) {
  embedding |= target == AdapterTarget::kEmbedding;
  head |= target == AdapterTarget::kHead;
  experts |= has_experts && target >= AdapterTarget::kGate && target <= AdapterTarget::kDown;
}

void AdapterParts::Add(const AdapterParts& other) {
  experts |= other.experts;
  embedding |= other.embedding;
  head |= other.head;
}

void StepBuilder::AddAdapters(const Batch& batch, StepHeader& header, StepPlan& plan) {
  plan.has_adapters = false;
  plan.adapter_parts = {};
  std::vector<AdapterUse> uses(plan.rows);
  for (const Batch::Member& member : batch.members) {
    if (member.adapter == nullptr) continue;
    plan.has_adapters = true;
    const auto seed = static_cast<uint64_t>(member.zo_seed);
    const bool negative = member.zo_seed < 0;
    AdapterUse use{};
    const auto& adapter = *static_cast<const StepAdapter*>(member.adapter);
    use.matrices = adapter.matrices();
    plan.adapter_parts.Add(adapter.parts());
    use.seed = negative ? -seed : seed;
    use.sigma = negative ? -member.zo_sigma : member.zo_sigma;
    std::fill_n(uses.begin() + member.first_row, member.rows, use);
  }
  if (plan.has_adapters) header.adapters = Append(plan.bytes, uses);
}

void StepBuilder::AddRows(const Batch& batch, StepHeader& header, StepPlan& plan) {
  std::vector<uint32_t> sources(plan.rows, kNone);
  std::vector<uint64_t> places(plan.rows);
  limits_.assign(plan.rows, 0);
  for (const Batch::CarriedToken& carried : batch.carried) {
    PIE_CHECK(carried.row < plan.rows && carried.member < shape_.max_members);
    sources[carried.row] =
        static_cast<uint32_t>(carried.batch % kRing) * shape_.max_members + carried.member;
  }
  std::vector<uint32_t> pages;
  pages.reserve(batch.pages.size());
  for (const PageId page : batch.pages) pages.push_back(page.value);
  for (const Batch::Member& member : batch.members) {
    PIE_CHECK(member.first_row + member.rows <= plan.rows);
    PIE_CHECK(uint64_t{member.kv_tokens} + member.rows <=
              uint64_t{member.pages} * shape_.page_tokens);
    for (uint32_t i = 0; i < member.rows; ++i) {
      const uint32_t slot = member.kv_tokens + i;
      const uint32_t page = pages[member.first_page + slot / shape_.page_tokens];
      places[member.first_row + i] =
          uint64_t{page} * shape_.page_tokens + slot % shape_.page_tokens;
      limits_[member.first_row + i] = slot + 1;
    }
  }
  header.tokens = Append(plan.bytes, batch.tokens);
  header.sources = Append(plan.bytes, sources);
  header.positions = Append(plan.bytes, batch.positions);
  header.places = Append(plan.bytes, places);
  header.limits = Append(plan.bytes, limits_);
  header.pages = Append(plan.bytes, pages);
}

// Expands run lengths to bits: the runs below `limit`, in `bits` bits of room.
uint32_t StepBuilder::AddMaskBits(const Brle& mask, uint32_t limit, uint32_t bits) {
  const size_t at = mask_words_.size();
  mask_words_.resize(at + (bits + 31) / 32);
  uint32_t* const words = &mask_words_[at];
  ForEachTrueRun(mask, limit, [&](uint32_t begin, uint32_t end) {
    while (begin < end) {
      const uint32_t stop = std::min(end, begin / 32 * 32 + 32);
      words[begin / 32] |= ~0U >> (32 - (stop - begin)) << (begin % 32);
      begin = stop;
    }
  });
  return static_cast<uint32_t>(at);
}

void StepBuilder::AddMasks(const Batch& batch) {
  mask_words_.clear();
  row_masks_.assign(batch.tokens.size(), kNone);
  logit_masks_.assign(batch.members.size(), kNone);
  for (size_t m = 0; m < batch.members.size(); ++m) {
    const Batch::Member& member = batch.members[m];
    if (member.logit_mask != nullptr && member.samples != nullptr) {
      logit_masks_[m] = AddMaskBits(*member.logit_mask, shape_.vocab, shape_.vocab);
    }
    if (member.attention == nullptr) continue;
    for (uint32_t row = 0; row < member.rows; ++row) {
      const size_t at = size_t{member.pass_row} + row;
      if (at >= member.attention->size()) continue;  // causal
      const uint32_t keys = member.kv_tokens + row + 1;
      row_masks_[member.first_row + row] = AddMaskBits((*member.attention)[at], keys, keys);
    }
  }
}

// Waits for a mask that is still being made. Passes with such masks are never submitted before the
// batch whose token the mask depends on has been waited for.
uint32_t StepBuilder::LogitMaskOf(const Batch& batch, uint32_t m, uint32_t row, StepPlan& plan) {
  const Batch::Member& member = batch.members[m];
  if (member.masks == nullptr) return logit_masks_[m];
  const uint32_t index = MaskIndexOf(member, row);
  const auto [at, is_new] = token_masks_.try_emplace({m, index}, kNone);
  if (!is_new) return at->second;
  const Result<std::span<const uint32_t>> bits = member.masks->Bits(index);
  const size_t words = (shape_.vocab + 31) / 32;
  if (!bits || bits->size() < words) {
    plan.failures.emplace_back(
        m, bits ? Error{Code::kInternal, "a mask has fewer bits than the vocabulary has tokens"}
                : bits.error());
    return kNone;
  }
  at->second = static_cast<uint32_t>(mask_words_.size());
  mask_words_.insert(mask_words_.end(), bits->begin(),
                     bits->begin() + static_cast<std::ptrdiff_t>(words));
  return at->second;
}

void StepBuilder::AddTiles(const Batch& batch, StepHeader& header, StepPlan& plan) {
  TileList list = tiles_.Plan(batch, limits_, row_masks_);
  header.small_tiles = static_cast<uint32_t>(list.small.size());
  header.large_tiles = static_cast<uint32_t>(list.large.size());
  list.small.insert(list.small.end(), list.large.begin(), list.large.end());
  header.tiles = Append(plan.bytes, list.small);
  header.tile_rows = Append(plan.bytes, list.rows);
  header.row_parts = Append(plan.bytes, list.parts);
  plan.has_parts = std::ranges::any_of(list.parts, [](RowParts parts) { return parts.count > 0; });
}

void StepBuilder::AddSamples(const Batch& batch, BatchTicket ticket, StepHeader& header,
                             StepPlan& plan) {
  using Kind = SampleSpec::Kind;
  std::vector<uint32_t> reads;
  const auto for_each = [&](auto&& visit) {
    for (uint32_t m = 0; m < batch.members.size(); ++m) {
      const Batch::Member& member = batch.members[m];
      if (member.samples == nullptr) continue;
      for (uint32_t spec = 0; spec < member.samples->size(); ++spec) {
        for (const uint32_t row : (*member.samples)[spec].rows) {
          if (row < member.pass_row || row - member.pass_row >= member.rows) continue;
          visit(m, spec, row, member.first_row + (row - member.pass_row));
        }
      }
    }
  };
  for_each([&](uint32_t m, uint32_t spec, uint32_t, uint32_t at) {
    const bool of_logits = ReadsLogits((*batch.members[m].samples)[spec]);
    (of_logits ? reads : plan.state_rows).push_back(at);
  });
  SortOut(reads);
  SortOut(plan.state_rows);

  std::vector<SampleItem> items;
  std::vector<ProbeItem> probes;
  std::vector<uint32_t> ids;
  plan.tokens = plan.values = 0;
  for_each([&](uint32_t m, uint32_t spec, uint32_t row, uint32_t at) {
    const Batch::Member& member = batch.members[m];
    const SampleSpec& sample = (*member.samples)[spec];
    std::vector<SlotPlan>& slots = plan.slots[m];
    if (!ReadsLogits(sample)) {
      slots.push_back({SlotPlan::Kind::kEmbedding, IndexOf(plan.state_rows, at), 1, spec, row});
      return;
    }
    const uint32_t read = IndexOf(reads, at);
    if (sample.kind < SampleSpec::kFirstProbe) {
      const bool first = slots.empty();
      const uint32_t draws = SlotsPerRow(sample);
      SampleItem item{};
      item.read = read;
      item.draws = draws;
      item.mask = LogitMaskOf(batch, m, row, plan);
      item.slot = plan.tokens;
      item.chosen = first ? static_cast<uint32_t>(ticket % kRing) * shape_.max_members + m : kNone;
      const DrawKey key = DrawKeyOf(member, row);
      item.random = Mix(key.seed, spec, key.row);
      item.p = 1;
      const bool by_k =
          (sample.kind == Kind::kTopK || sample.kind == Kind::kTopKTopP) && sample.k > 0;
      const bool by_p =
          (sample.kind == Kind::kTopP || sample.kind == Kind::kTopKTopP) && sample.p < 1;
      if (!(sample.temperature > 0)) {
        item.kind = SampleItem::Kind::kGreedy;
      } else {
        item.inverse = InverseOf(sample.temperature);
        item.kind = by_k || by_p                 ? SampleItem::Kind::kByRank
                    : sample.kind == Kind::kMinP ? SampleItem::Kind::kMinP
                                                 : SampleItem::Kind::kById;
        item.k = by_k ? sample.k : 0;
        if (by_p || sample.kind == Kind::kMinP) item.p = sample.p;
      }
      items.push_back(item);
      slots.push_back({SlotPlan::Kind::kTokens, plan.tokens, draws, spec, row});
      plan.tokens += draws;
      if (first) plan.chooses[m] = true;
    } else if (sample.kind == Kind::kLogprobs && !sample.ids.empty()) {
      const auto count = static_cast<uint32_t>(sample.ids.size());
      probes.push_back({read, static_cast<uint32_t>(ids.size()), count, plan.values});
      ids.insert(ids.end(), sample.ids.begin(), sample.ids.end());
      slots.push_back({SlotPlan::Kind::kLogprobs, plan.values, count, spec, row});
      plan.values += count;
    } else if (sample.kind == Kind::kLogprobs) {
      slots.push_back({SlotPlan::Kind::kLogprobs, 0, 0, spec, row});
    } else if (sample.kind == Kind::kEntropy) {
      probes.push_back({read, 0, 0, plan.values});
      slots.push_back({SlotPlan::Kind::kEntropy, plan.values, 1, spec, row});
      ++plan.values;
    } else {
      plan.host_reads.push_back(read);
      slots.push_back({SlotPlan::Kind::kOnHost, read, 1, spec, row});
    }
  });
  SortOut(plan.host_reads);
  for (auto& slots : plan.slots) {
    for (SlotPlan& slot : slots) {
      if (slot.kind != SlotPlan::Kind::kOnHost) continue;
      slot.first = IndexOf(plan.host_reads, slot.first);
    }
  }
  // By read, so that the rows of logits can be computed some at a time.
  std::ranges::stable_sort(items, {}, &SampleItem::read);
  std::ranges::stable_sort(probes, {}, &ProbeItem::read);
  plan.reads = header.reads = static_cast<uint32_t>(reads.size());
  header.items = static_cast<uint32_t>(items.size());
  header.probes = static_cast<uint32_t>(probes.size());
  header.read_rows = Append(plan.bytes, reads);
  header.sample_items = Append(plan.bytes, items);
  header.probe_items = Append(plan.bytes, probes);
  header.ids = Append(plan.bytes, ids);
}

}  // namespace pie::cuda
