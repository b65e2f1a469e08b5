// GuestCall: marks a call that the bridge makes for a guest, for the thread sanitizer. The bridge
// lets one thread at a time use a guest's object, but it does so with Rust's locks, which the
// sanitizer cannot see. In other builds this does nothing.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace pie::wasm {

class GuestCall {
 public:
#ifdef __SANITIZE_THREAD__
  explicit GuestCall(void* guest) : guest_(guest) { __tsan_acquire(guest_); }
  ~GuestCall() { __tsan_release(guest_); }
#else
  explicit GuestCall(void*) {}
#endif
  GuestCall(const GuestCall&) = delete;
  GuestCall& operator=(const GuestCall&) = delete;

#ifdef __SANITIZE_THREAD__
 private:
  void* guest_;
#endif
};

}  // namespace pie::wasm
