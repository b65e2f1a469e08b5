// Turns: guests that wait for a turn, for threads that lend themselves to them. A thread may keep
// the guests that it wakes for that; it must see to it that they are run, or handed over to the
// runtime's own threads, before it sleeps. Guests that held a lent thread for long get their next
// turns elsewhere.
#pragma once

#include "pie_bridge.h"

namespace pie::wasm {

class Turns {
 public:
  explicit Turns(const pie_bridge::Turns* raw) : raw_(raw) {}
  ~Turns() { pie_bridge::pie_turns_free(raw_); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  void Keep(bool keep) { pie_bridge::pie_turns_keep(raw_, keep); }  // whom this thread wakes
  bool RunOne() { return pie_bridge::pie_turns_run_one(raw_); }     // false: nobody is kept
  void HandOver() { pie_bridge::pie_turns_hand_over(raw_); }

 private:
  const pie_bridge::Turns* raw_;
};

}  // namespace pie::wasm
