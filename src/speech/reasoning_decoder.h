// ReasoningDecoder: tokens → the model's thoughts, apart from its answer. What is given out is
// whole characters without the space around the thoughts; the deltas put together are the whole
// text. One owner, one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "base/result.h"
#include "speech/marked_text.h"
#include "speech/model.h"

namespace pie {

class ReasoningDecoder {
 public:
  struct Start {};
  struct Delta {
    std::string text;  // empty: no reasoning here
  };
  struct Complete {
    std::string text;  // all of it
  };
  using Event = std::variant<Start, Delta, Complete>;

  // A model without a format for reasoning has none.
  explicit ReasoningDecoder(const Model& model);

  // One event a call: Complete if thoughts end here, else Start if they begin (their text comes
  // with the next call), else Delta.
  Result<Event> Feed(std::span<const uint32_t> tokens);
  void Reset();

 private:
  // Moves what can be shown of `rest_`, up to `end`, to the text.
  void Show(size_t end);

  const ReasoningFormat* format_;  // null: none
  MarkedText marks_;
  std::string rest_;    // not yet understood: before a mark, or thoughts that may end in one
  std::string text_;    // the thoughts so far
  std::string unsent_;  // of them
  bool fresh_ = true;   // nothing was fed since the turn began
  bool inside_ = false;
};

}  // namespace pie
