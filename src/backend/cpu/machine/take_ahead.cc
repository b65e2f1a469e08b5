#include "backend/cpu/machine/take_ahead.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <stop_token>

namespace pie::cpu {
namespace {

constexpr size_t kPiece = size_t{2} << 20;
#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14; older ones refuse it
#endif

void Take(const std::stop_token& stop, std::span<std::byte> memory) {
  pthread_setname_np(pthread_self(), "pie-memory");
  while (!memory.empty() && !stop.stop_requested()) {
    const size_t bytes = std::min(kPiece, memory.size());
    if (madvise(memory.data(), bytes, MADV_POPULATE_WRITE) != 0) return;
    memory = memory.subspan(bytes);
  }
}

}  // namespace

TakeAhead::TakeAhead(std::span<std::byte> memory, size_t most)
    : thread_(Take, memory.first(std::min(most, memory.size()))) {}

void TakeAhead::Wait() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace pie::cpu
