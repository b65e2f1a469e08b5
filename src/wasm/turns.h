// Turns: lets a thread run guests instead of waking a thread of the runtime for them. A thread may
// keep the guests that it wakes. Before it sleeps, it must run them or hand them over to the
// runtime's own threads. A guest that has held such a thread for long runs on the runtime's own
// threads for a while.
#pragma once

#include "pie_bridge.h"

namespace pie::wasm {

class Turns {
 public:
  explicit Turns(const pie_bridge::Turns* raw) : raw_(raw) {}
  ~Turns() { pie_bridge::pie_turns_free(raw_); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Whether this thread keeps the guests that it wakes. False hands over those that it has kept.
  void Keep(bool keep) { pie_bridge::pie_turns_keep(raw_, keep); }
  // Runs one of the guests that were kept. Returns false if there is none.
  bool RunOne() { return pie_bridge::pie_turns_run_one(raw_); }
  void HandOver() { pie_bridge::pie_turns_hand_over(raw_); }
  // The guest that this thread runs, if it runs one, takes its next turn on a thread of its user.
  static void AskApart() { pie_bridge::pie_turns_ask_apart(); }

 private:
  const pie_bridge::Turns* raw_;
};

}  // namespace pie::wasm
