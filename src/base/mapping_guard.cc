#include "base/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace pie {

struct MappingGuard::Slot {
  std::atomic<uintptr_t> begin = 0;  // 0: unused
  std::atomic<uintptr_t> end = 0;
  std::atomic<bool> lost = false;
};

namespace {

using Slot = MappingGuard::Slot;

constexpr size_t kSlots = 16'384;
std::array<Slot, kSlots> slots;      // never moves: the handler may read it at any time
std::atomic<size_t> slots_used = 0;  // the handler looks at no more than these
std::mutex mutex;                    // for the list of free slots
struct sigaction before;             // the handler that was there

std::vector<Slot*>& FreeSlots() {
  static auto* const free = new std::vector<Slot*>;  // outlives all guards
  return *free;
}

// Calls only functions that are safe in a signal handler.
void OnBusError(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (size_t i = 0; i < slots_used.load(std::memory_order_acquire); ++i) {
    const uintptr_t begin = slots[i].begin.load(std::memory_order_acquire);
    const uintptr_t end = slots[i].end.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= end) continue;
    // Everything after the page is lost as well, because the file ends before it.
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t first = address / page * page;
    void* const zeros = mmap(reinterpret_cast<void*>(first), end - first, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) break;
    slots[i].lost.store(true, std::memory_order_release);
    return;
  }
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    return before.sa_handler(signal);
  }
  ::signal(SIGBUS, SIG_DFL);  // the access is repeated, and ends the process
}

void Install() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
  });
}

}  // namespace

MappingGuard::MappingGuard(std::span<const std::byte> mapping) {
  if (mapping.empty()) return;
  Install();
  {
    std::lock_guard lock(mutex);
    if (!FreeSlots().empty()) {
      slot_ = FreeSlots().back();
      FreeSlots().pop_back();
    } else if (slots_used.load() < kSlots) {
      slot_ = &slots[slots_used.fetch_add(1)];
    } else {
      return;
    }
  }
  const auto begin = reinterpret_cast<uintptr_t>(mapping.data());
  slot_->lost.store(false);
  slot_->end.store(begin + mapping.size(), std::memory_order_release);
  slot_->begin.store(begin, std::memory_order_release);
}

MappingGuard::~MappingGuard() {
  if (slot_ == nullptr) return;
  slot_->begin.store(0, std::memory_order_release);
  std::lock_guard lock(mutex);
  FreeSlots().push_back(slot_);
}

bool MappingGuard::lost() const {
  return slot_ != nullptr && slot_->lost.load(std::memory_order_acquire);
}

}  // namespace pie
