// ReasoningDecoder separates the model's thoughts from its answer. It gives out whole characters,
// without the white space around the thoughts. All deltas together are the whole text. One owner,
// one thread.
#pragma once

#include <cstdint>
#include <optional>
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
    std::string text;  // empty if there is no reasoning here
  };
  struct Complete {
    std::string text;  // all thoughts of the turn
  };
  using Event = std::variant<Start, Delta, Complete>;

  // A model without a format for reasoning never gives out thoughts. `begins_inside` says whether
  // the cue has already begun the thoughts; by default, the format says it.
  explicit ReasoningDecoder(const Model& model, std::optional<bool> begins_inside = {});

  // Returns one event: Complete if the thoughts end here, else Start if they begin (their text
  // comes with the next call), else Delta.
  Result<Event> Feed(std::span<const uint32_t> tokens);
  void Reset();
  // Bytes of text that the decoder keeps.
  size_t bytes() const { return rest_.size() + text_.size() + unsent_.size(); }

 private:
  // Moves the first `end` bytes of `rest_` to the text, as far as they can be shown.
  void Show(size_t end);

  const ReasoningFormat* format_;  // null if the model has none
  bool begins_inside_;
  MarkedText marks_;
  std::string rest_;    // text before a mark, or thoughts that may end in a mark
  std::string text_;    // the thoughts so far
  std::string unsent_;  // the part of text_ that was not given out yet
  bool fresh_ = true;   // no token was fed since the turn began
  bool inside_ = false;
};

}  // namespace pie
