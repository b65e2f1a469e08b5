#include "cli/memory_plan.h"

#include <algorithm>

#include "base/memory_limit.h"

namespace pie::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLeastRoom = 256 * kMiB;

// Memory that belongs to no budget: compilers, stacks, buffers of sockets, the system's cache of
// files.
uint64_t ReserveOf(uint64_t total) {
  return std::clamp<uint64_t>(total / 8, 64 * kMiB, 2048 * kMiB);
}

// The room is divided into sixteenths. The functions below hand out all of them.
void Cap(uint64_t room, uint64_t sixteenths, size_t& limit) {
  limit = std::min<size_t>(limit, room / 16 * sixteenths);
}

}  // namespace

void MemoryPlan::Cap(const Config& config, host::Limits& limits) const {
  if (!config.linear_is_set) cli::Cap(room, 7, limits.max_linear_bytes);
  if (!config.adapter_memory_is_set) cli::Cap(room, 1, limits.max_adapter_memory);
  cli::Cap(room, 2, limits.max_host_bytes);
  cli::Cap(room, 1, limits.max_messaging_bytes);
  cli::Cap(room, 1, limits.max_inputs_bytes);
}

void MemoryPlan::Cap(const Config& config, wasm::CompileLimits& limits) const {
  // Compilers are not in the plan. The system ends them first, when memory is short.
  if (!config.compile_memory_is_set) limits.memory_bytes = std::min(limits.memory_bytes, total / 2);
}

void MemoryPlan::Cap(server::Limits& limits) const {
  cli::Cap(room, 2, limits.max_uploads_bytes);
  cli::Cap(room, 1, limits.max_buffered_bytes);
  cli::Cap(room, 1, limits.max_code_bytes);
  // A connection takes some memory that is in no budget, mostly for TLS.
  constexpr uint64_t kBytesOfConnection = 64 << 10;
  if (limits.max_connections == server::Limits().max_connections) {
    limits.max_connections =
        std::min<size_t>(limits.max_connections, ReserveOf(total) / kBytesOfConnection);
  }
  // One user may take a share of all uploads only.
  limits.max_upload_bytes = std::min(limits.max_upload_bytes, limits.max_uploads_bytes / 2);
}

uint64_t MemoryOf(const Config& config) {
  return config.memory_bytes != 0 ? config.memory_bytes : ReadMemoryLimit().bytes();
}

uint64_t MemoryForModels(uint64_t total) {
  const uint64_t kept = ReserveOf(total) + kLeastRoom;
  return total > kept ? total - kept : 0;
}

Result<MemoryPlan> PlanMemory(uint64_t total, uint64_t models) {
  const uint64_t most = MemoryForModels(total);
  if (models > most || most == 0) {
    return Fail(
        Code::kExhausted,
        "the models need {} MiB for weights and KV pages, but of the {} MiB that the engine "
        "may use, they can have {} MiB; lower total_pages or swap_pool_size, use a smaller "
        "model, or give the engine more memory",
        models / kMiB, total / kMiB, most / kMiB);
  }
  return MemoryPlan{.total = total, .models = models, .room = total - ReserveOf(total) - models};
}

}  // namespace pie::cli
