// What is configured about KV memory that many share.
#pragma once

#include <cstdint>

namespace pie {

struct MemoryOptions {
  uint32_t endowment_pages = 64;   // of an account
  double oversubscription = 1.0;   // endowments of those who are in, to all pages
  double restore_pause_at = 0.85;  // of all pages: the mark up to which lanes enter
  uint32_t overdue_ms = 2'000;     // waited so long, a lane goes before all others
  uint32_t swap_pages = 0;         // that may be kept outside of the device
};

}  // namespace pie
