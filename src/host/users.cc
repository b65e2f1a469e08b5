#include "host/users.h"

#include <atomic>

namespace pie::host {
namespace {

// The memory that an inferlet takes from its user's account at a time, and that account from the
// engine's.
constexpr size_t kMemoryGrain = 1 << 20;

std::atomic<uint64_t> next_number = 1;

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
      opened(Whole(limits.max_opened_contexts)) {}

User::User(std::string_view the_name, const Totals& totals, const Limits& limits)
    : name(the_name),
      number(next_number.fetch_add(1, std::memory_order_relaxed)),
      processes(limits.max_processes, totals.processes, {limits.user_share_percent}),
      inputs(limits.max_inputs_bytes, totals.inputs, {limits.user_share_percent}),
      contexts(limits.max_contexts, totals.contexts, {limits.user_share_percent}),
      topics(limits.max_topics, totals.topics, {limits.user_share_percent}),
      messages(limits.max_messaging_bytes, totals.messages, {limits.user_share_percent}),
      memory(limits.max_host_bytes, totals.memory, {limits.user_share_percent, kMemoryGrain}),
      linear(limits.max_linear_bytes, totals.linear, {limits.user_share_percent}),
      opened(limits.max_opened_contexts, totals.opened, {limits.user_share_percent}) {}

}  // namespace pie::host
