// Turns: guests that wait for a turn, for a thread that lends itself to them. Whom such a thread
// wakes, it must run or hand over to the runtime's own threads before it sleeps. Guests that held
// it for long get their next turns elsewhere.
#pragma once

#include "pie_bridge.h"

namespace pie::wasm {

class Turns {
 public:
  explicit Turns(const pie_bridge::Turns* raw) : raw_(raw) {}
  ~Turns() { pie_bridge::pie_turns_free(raw_); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  void Lend(bool lent) { pie_bridge::pie_turns_lend(raw_, lent); }  // this thread
  bool RunOne() { return pie_bridge::pie_turns_run_one(raw_); }     // false: nobody waits
  void HandOver() { pie_bridge::pie_turns_hand_over(raw_); }

 private:
  const pie_bridge::Turns* raw_;
};

}  // namespace pie::wasm
