// Signal: an event that a guest can wait for. Any thread may fire it. Every pollable that this
// engine hands out waits for a signal.
#pragma once

#include "pie_bridge.h"

namespace pie::wasm {

class Signal {
 public:
  Signal() : raw_(pie_bridge::pie_signal_new()) {}
  ~Signal() { pie_bridge::pie_signal_free(raw_); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void Fire() { pie_bridge::pie_signal_fire(raw_); }
  // Makes it unready again, for events that happen more than once.
  void Clear() { pie_bridge::pie_signal_clear(raw_); }
  const pie_bridge::Signal* raw() const { return raw_; }

 private:
  const pie_bridge::Signal* raw_;
};

}  // namespace pie::wasm
