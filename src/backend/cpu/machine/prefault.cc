#include "backend/cpu/machine/prefault.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <stop_token>

namespace pie::cpu {
namespace {

constexpr size_t kPiece = size_t{2} << 20;
#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;  // since Linux 5.14; older systems refuse it
#endif

void Populate(const std::stop_token& stop, std::span<std::byte> memory) {
  pthread_setname_np(pthread_self(), "pie-memory");
  while (!memory.empty() && !stop.stop_requested()) {
    const size_t bytes = std::min(kPiece, memory.size());
    if (madvise(memory.data(), bytes, MADV_POPULATE_WRITE) != 0) return;
    memory = memory.subspan(bytes);
  }
}

}  // namespace

Prefault::Prefault(std::span<std::byte> memory, size_t most)
    : thread_(Populate, memory.first(std::min(most, memory.size()))) {}

void Prefault::Wait() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace pie::cpu
