#include "host/users.h"

#include <array>
#include <cstring>

#include "host/hash.h"

namespace pie::host {
namespace {

// An inferlet takes memory from its user's budget in multiples of this, and a user from the
// engine's.
constexpr size_t kMemoryGrain = 1 << 20;

// A user who is forgotten and seen again has the same number, because they may owe processor time.
uint64_t NumberOf(std::string_view name) {
  const std::array<uint8_t, 32> hash = Blake3(name);
  uint64_t number = 0;
  std::memcpy(&number, hash.data(), sizeof(number));
  return number;
}

ByteBudget::Part InGrains(ByteBudget::Part part) {
  part.grain = kMemoryGrain;
  return part;
}

std::shared_ptr<ByteBudget> Whole(size_t limit) {
  return std::make_shared<ByteBudget>(limit);
}

}  // namespace

Totals::Totals(const Limits& limits)
    : processes(Whole(limits.max_processes)),
      inputs(Whole(limits.max_inputs_bytes)),
      contexts(Whole(limits.max_contexts)),
      topics(Whole(limits.max_topics)),
      messages(Whole(limits.max_messaging_bytes)),
      memory(Whole(limits.max_host_bytes)),
      linear(Whole(limits.max_linear_bytes)),
      opened(Whole(limits.max_opened_contexts)),
      detached(Whole(limits.max_detached)),
      passes(Whole(limits.max_passes)),
      open_files(Whole(limits.max_open_files)) {}

User::User(std::string_view the_name, const Totals& totals, ByteBudget::Part part, LentTimes& lents)
    : name(the_name),
      number(NumberOf(the_name)),
      processes(totals.processes->limit(), totals.processes, part),
      inputs(totals.inputs->limit(), totals.inputs, part),
      contexts(totals.contexts->limit(), totals.contexts, part),
      topics(totals.topics->limit(), totals.topics, part),
      messages(totals.messages->limit(), totals.messages, part),
      memory(totals.memory->limit(), totals.memory, InGrains(part)),
      linear(totals.linear->limit(), totals.linear, part),
      opened(totals.opened->limit(), totals.opened, part),
      detached(totals.detached->limit(), totals.detached, part),
      passes(totals.passes->limit(), totals.passes, part),
      open_files(totals.open_files->limit(), totals.open_files, part),
      lent(lents.Of(number)) {}

// The user without a name is the engine itself, and is not counted.
void Users::Note(std::string_view name) {
  if (name.empty()) return;
  std::lock_guard lock(mutex_);
  if (first_.empty()) first_ = name;
  if (first_ != name) several_.store(true, std::memory_order_relaxed);
}

}  // namespace pie::host
