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

uint32_t PeersToWaitFor(BatchPolicy policy, const Gathering& gathering) {
  switch (policy) {
    case BatchPolicy::kGreedy:
      return 0;
    case BatchPolicy::kEager:
      return gathering.woken;
    case BatchPolicy::kAdaptive:
      return gathering.prompt;
  }
  return 0;
}

int64_t HoldNs(BatchPolicy policy, const Gathering& gathering) {
  if (gathering.waiting >= gathering.most || PeersToWaitFor(policy, gathering) == 0) return 0;
  return std::max<int64_t>(PatienceNs(gathering.last_latency_ns) - gathering.waited_ns, 0);
}

}  // namespace pie
