// The part of Guest that saves and opens sequences.
#include <fmt/format.h>

#include <utility>

#include "guest.h"

namespace pie::sim {
namespace {

constexpr size_t kMostSaves = 2;

}  // namespace

std::string Guest::RandomName() {
  return dice_.Of({"a", "b", "c"});
}

// Saves as the engine does: forks the sequence and reads some pages at a time.
void Guest::Save(SequenceId id, std::string name, Slots slots, Store::SlotAdapters adapters) {
  if (saves_.size() >= kMostSaves) return;
  auto saving = std::make_shared<Saving>();
  saving->name = std::move(name);
  saving->slots = std::move(slots);
  saving->adapters = std::move(adapters);
  saving->copy = SequenceId{next_sequence_++};
  saving->chunk = 1 + dice_.Below(6);
  saving->killed = dice_.OneIn(8);
  queue_.Push(command::Fork{.parent = id, .child = saving->copy});
  saves_.push_back(saving);
  ReadMore(saving);
}

void Guest::ReadMore(const std::shared_ptr<Saving>& saving) {
  saving->asked_ns = clock_.NowNs();
  auto read = std::make_unique<KvRead>();
  read->first_page = saving->next_page;
  read->pages = saving->chunk;
  read->done = [watch = Watch(saving)](Result<KvContent> content) mutable {
    if (watch.asked->arrived) watch.asked->problem = "a read was answered twice";
    watch.asked->arrived = std::move(content);
  };
  saving->destroyed = false;
  saving->next_page += saving->chunk;
  queue_.Push(command::Read{saving->copy, std::move(read)});
}

Status Guest::CollectSaves() {
  Status status;
  std::erase_if(saves_, [&](const std::shared_ptr<Saving>& saving) {
    if (!saving->destroyed || !status) return false;
    longest_wait_ns_ = std::max(longest_wait_ns_, clock_.NowNs() - saving->asked_ns);
    const Result<bool> goes_on = TakePages(saving);
    if (!goes_on) status = std::unexpected(goes_on.error());
    if (goes_on && *goes_on) return false;
    queue_.Push(command::Drop{saving->copy});
    return true;
  });
  return status;
}

// False: it has ended.
Result<bool> Guest::TakePages(const std::shared_ptr<Saving>& saving) {
  if (!saving->problem.empty()) return Fail(Code::kInternal, "{}", saving->problem);
  if (!saving->arrived) return Fail(Code::kInternal, "a read was forgotten");
  Result<KvContent> part = *std::exchange(saving->arrived, std::nullopt);
  if (!part) {
    ++failures_;
    if (options_.faults) return false;
    return Fail(Code::kInternal, "a read failed: {}", part.error().text);
  }
  KvContent& content = saving->content;
  std::vector<std::byte>& bytes = saving->bytes;
  if (bytes.empty()) content.rows = std::move(part->rows);
  for (uint32_t i = 0; i < part->pages->pages(); ++i) {
    const std::span<const std::byte> page = PIE_TRY(part->pages->Page(i));
    bytes.insert(bytes.end(), page.begin(), page.end());
  }
  const uint32_t page_tokens = device_.info().page_tokens;
  if (uint64_t{saving->next_page} * page_tokens < saving->slots.size()) {
    ReadMore(saving);
    return true;
  }
  const size_t pages = (saving->slots.size() + page_tokens - 1) / page_tokens;
  if (bytes.size() != pages * device_.info().page_bytes) {
    return Fail(Code::kInternal, "{} bytes were read of {} pages", bytes.size(), pages);
  }
  content.pages = MakePageContents(std::move(bytes), device_.info().page_bytes);
  PIE_RETURN_IF_ERROR(store_.Save(options_.user, saving->name, std::move(content),
                                  std::move(saving->slots), std::move(saving->adapters),
                                  saving->killed));
  return false;
}

Status Guest::Open(bool take) {
  const std::string name = RandomName();
  auto saved = PIE_TRY(take ? store_.Take(options_.user, name) : store_.Open(options_.user, name));
  if (!saved) return {};
  const SequenceId id{next_sequence_++};
  queue_.Push(command::Create{.sequence = id,
                              .salt = options_.salt,
                              .account = options_.account,
                              .stored = std::move(saved->kv)});
  held_.push_back({id, std::move(saved->slots)});
  return {};
}

}  // namespace pie::sim
