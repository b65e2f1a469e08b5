// How KV memory is shared when there is not enough of it.
#pragma once

#include <cstdint>

namespace pie {

struct MemoryOptions {
  uint32_t endowment_pages = 64;   // of an account
  double oversubscription = 1.0;   // limit of: endowments of all accounts with pages ÷ all pages
  double restore_pause_at = 0.85;  // lanes enter while no more than this share of pages is used
  uint32_t overdue_ms = 2'000;     // a lane that has waited longer is served first
  uint32_t swap_pages = 0;         // that may be kept in host memory
  bool swap_always = false;        // tests: also where computing the tokens again is cheaper
};

}  // namespace pie
