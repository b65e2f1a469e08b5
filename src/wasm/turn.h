// Turn: a call that the bridge makes for a guest. The bridge lets one thread at a time have a
// guest, by means that a thread sanitizer cannot see (Rust's own locks); this tells it. Nothing
// elsewhere.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace pie::wasm {

class Turn {
 public:
#ifdef __SANITIZE_THREAD__
  explicit Turn(void* guest) : guest_(guest) { __tsan_acquire(guest_); }
  ~Turn() { __tsan_release(guest_); }
#else
  explicit Turn(void*) {}
#endif
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

#ifdef __SANITIZE_THREAD__
 private:
  void* guest_;
#endif
};

}  // namespace pie::wasm
