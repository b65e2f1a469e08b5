#include "sched/policy.h"

#include <algorithm>

namespace pie {
namespace {

constexpr int64_t kMostPatienceNs = 20'000'000;

}  // namespace

std::optional<BatchPolicy> ParseBatchPolicy(std::string_view name) {
  if (name == "greedy") return BatchPolicy::kGreedy;
  if (name == "eager") return BatchPolicy::kEager;
  if (name == "adaptive") return BatchPolicy::kAdaptive;
  return std::nullopt;
}

int64_t PatienceNs(int64_t last_latency_ns) {
  return std::min(last_latency_ns, kMostPatienceNs);
}

int64_t HoldNs(BatchPolicy policy, const Gathering& gathering) {
  if (policy == BatchPolicy::kGreedy || gathering.waiting >= gathering.most) return 0;
  const uint32_t peers = policy == BatchPolicy::kEager ? gathering.woken : gathering.prompt;
  if (peers == 0) return 0;
  return std::max<int64_t>(PatienceNs(gathering.last_latency_ns) - gathering.waited_ns, 0);
}

}  // namespace pie
