// Limits: what one guest may use of the machine. The runtime enforces them.
#pragma once

#include <cstdint>

namespace pie::wasm {

struct Limits {
  uint64_t max_memory_bytes = 1ull << 30;   // linear memory
  uint64_t max_table_elements = 100'000;    // elements of one function table
  uint32_t max_handles = 65'536;            // WASI handles at the same time
  uint64_t cpu_budget_ms = 300'000;         // processor time of a whole run; 0: no limit
  uint64_t max_output_bytes = 64ull << 20;  // stdout and stderr together
};

}  // namespace pie::wasm
