// Guests that use adapters: a sequence is fed under several of them, forked, suspended, saved and
// opened. Each answer is compared with that of a device of its own, which computes the whole
// sequence again.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "guest.h"

namespace pie::sim {
namespace {

constexpr size_t kMostAdapted = 2;

}  // namespace

Oracle::Oracle(const DummyOptions& options) {
  DummyOptions roomy = options;
  roomy.total_pages = 1'024;
  roomy.max_batch_tokens = 4'096;
  roomy.max_batch_members = 1;
  device_ = MakeDummyBackend(roomy);
  for (uint32_t i = 1; i <= kAdapters; ++i) {
    AdapterWeights weights = *MakeAdapter(DummyAdapterShape(), 2, 2);
    weights.layers[0][0].b[0] = static_cast<float>(i);
    adapters_.push_back(*device_->LoadAdapter(weights));
  }
}

uint32_t Oracle::Greedy(const std::vector<AdaptedSlot>& slots) {
  const uint32_t page_tokens = device_->info().page_tokens;
  std::vector<SampleSpec> samples;
  uint32_t token = 0;
  for (size_t first = 0; first < slots.size();) {
    size_t end = first;
    Batch batch;
    for (; end < slots.size() && slots[end].adapter == slots[first].adapter; ++end) {
      batch.tokens.push_back(slots[end].slot.token);
      batch.positions.push_back(slots[end].slot.position);
    }
    const auto rows = static_cast<uint32_t>(end - first);
    const auto pages = static_cast<uint32_t>((end + page_tokens - 1) / page_tokens);
    for (uint32_t page = 0; page < pages; ++page) batch.pages.push_back(PageId{page});
    samples = {{.rows = {rows - 1}}};
    batch.members.push_back({.rows = rows,
                             .pages = pages,
                             .kv_tokens = static_cast<uint32_t>(first),
                             .samples = &samples,
                             .adapter = WeightsOf(slots[first].adapter).get()});
    const BatchOutput output = *device_->Wait(*device_->Submit(batch));
    token = std::get<TokenSlot>(output.slots[0].at(0)).token;
    first = end;
  }
  return token;
}

// Snapshots of adapted sequences have names of their own: others are opened without adapters.
std::string Guest::RandomAdaptedName() {
  return dice_.Of({"adapted a", "adapted b"});
}

void Guest::SaveAdapted(const Adapted& held) {
  Slots slots;
  Store::SlotAdapters adapters;
  for (const AdaptedSlot& slot : held.slots) {
    slots.push_back(slot.slot);
    adapters.push_back(slot.adapter);
  }
  Save(held.id, RandomAdaptedName(), std::move(slots), std::move(adapters));
}

Status Guest::OpenAdapted(bool take) {
  const std::string name = RandomAdaptedName();
  auto saved = PIE_TRY(take ? store_.Take(options_.user, name) : store_.Open(options_.user, name));
  if (!saved) return {};
  Adapted opened{.id = SequenceId{next_sequence_++}, .slots = {}};
  AdaptersByVersion adapters;
  for (size_t i = 0; i < saved->slots.size(); ++i) {
    const uint32_t adapter = saved->adapters[i];
    opened.slots.push_back({saved->slots[i], adapter});
    const auto is_same = [&](const auto& one) { return one.first == adapter; };
    if (adapter == 0 || std::ranges::any_of(adapters, is_same)) continue;
    adapters.emplace_back(adapter, oracle_.WeightsOf(adapter));
  }
  queue_.Push(command::Create{.sequence = opened.id,
                              .salt = options_.salt,
                              .account = options_.account,
                              .stored = std::move(saved->kv),
                              .adapters = std::move(adapters)});
  adapted_.push_back(std::move(opened));
  return {};
}

// Begins an adapted sequence, goes on with one, forks it, suspends it, saves it or opens one.
Status Guest::Adapt() {
  const uint32_t action = dice_.Below(12);
  if (action >= 8 && action < 10 && !adapted_.empty()) {
    SaveAdapted(adapted_.back());
    return {};
  }
  if (action >= 10 && adapted_.size() < kMostAdapted) {
    PIE_RETURN_IF_ERROR(OpenAdapted(dice_.OneIn(3)));
  }
  if (adapted_.empty() || (action == 0 && adapted_.size() < kMostAdapted)) {
    adapted_.push_back({.id = SequenceId{next_sequence_++}, .slots = {}});
    queue_.Push(command::Create{
        .sequence = adapted_.back().id, .salt = options_.salt, .account = options_.account});
  } else if (action == 1 && adapted_.size() < kMostAdapted) {
    const SequenceId child{next_sequence_++};
    queue_.Push(
        command::Fork{.parent = adapted_[0].id, .child = child, .account = options_.account});
    adapted_.push_back({.id = child, .slots = adapted_[0].slots});
  } else if (action == 2 && options_.suspends) {
    queue_.Push(command::Suspend{adapted_.back().id});
  }
  Adapted& held = adapted_[dice_.Below(static_cast<uint32_t>(adapted_.size()))];
  const uint32_t count = 1 + dice_.Below(std::max(1U, options_.longest / 4));
  if (held.slots.size() + count > options_.longest) {
    DropAdapted(held.id);
    return {};
  }
  const uint32_t adapter = dice_.Below(Oracle::kAdapters + 1);
  Forward forward;
  forward.sequence = held.id;
  for (uint32_t i = 0; i < count; ++i) {
    const auto position = static_cast<uint32_t>(held.slots.size());
    const uint32_t token = 'a' + (dice_.OneIn(8) ? dice_.Below(3) : 0);
    forward.tokens.push_back(token);
    forward.positions.push_back(position);
    held.slots.push_back({{token, position}, adapter});
  }
  forward.samples = {{.rows = {count - 1}}};
  if (adapter != 0) {
    forward.adapter = {.version = adapter};
    forward.adapter_weights = oracle_.WeightsOf(adapter);
  }
  device_.Expect(next_pass_, static_cast<uint32_t>(held.slots.size()) - count);
  auto asked = std::make_shared<Asked>();
  asked->expected = oracle_.Greedy(held.slots);
  asked->sequence = held.id;
  Push(asked, std::move(forward));
  return {};
}

void Guest::DropAdapted(SequenceId id) {
  queue_.Push(command::Drop{id});
  for (const auto& asked : asked_) {  // null: Collect is just sorting them out
    if (asked && asked->sequence == id) asked->dropped = true;
  }
  std::erase_if(adapted_, [&](const Adapted& adapted) { return adapted.id == id; });
}

}  // namespace pie::sim
