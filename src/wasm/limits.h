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

// Limits on the HTTP requests of one guest.
struct HttpLimits {
  uint32_t max_requests = 1'000;              // of one guest
  uint32_t max_in_flight = 16;                // the greatest number of them at the same time
  uint64_t max_request_bytes = 16ull << 20;   // body of one request
  uint64_t max_response_bytes = 64ull << 20;  // body of one response
  uint64_t timeout_ms = 120'000;              // from the start to the last byte of the response
};

// Limits on one compilation of a component.
struct CompileLimits {
  uint32_t cpu_secs = 300;             // of all its threads; four times as much wall time
  uint64_t memory_bytes = 2ull << 30;  // of the compiler, with the code that it makes
};

}  // namespace pie::wasm
