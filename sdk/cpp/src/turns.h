// Which chat turns a context has, so that the next one is written as the model's template writes it
// there.
//
// A template renders whole conversations, and what a turn adds depends on where it stands. Turns
// whose tokens are still the end of the buffer are pending: they are rendered together, so that the
// buffer is the template's own rendering as long as nothing is flushed. Any other use of the buffer
// settles them: from then on only their kinds are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet::detail {

class Turns {
 public:
  using Kind = pie::plus::turns::Kind;
  struct Turn {
    Kind kind;
    std::string text;
    std::string name = {};
    std::vector<std::string> tools = {};
  };

  // For a context whose turns are unknown: a conversation is assumed to be under way.
  static Turns InTheMiddle();

  // Adds a turn's tokens to the buffer, and renders the pending turns again.
  Result<void> Add(const Model& model, std::vector<uint32_t>& buffer, Turn turn);
  // Ends the pending turns: from here on only their kinds are known.
  void Settle();
  // Closes the model's turn.
  void Seal();

 private:
  std::vector<Kind> settled_;
  std::vector<Turn> pending_;
  size_t start_ = 0;  // of the pending turns' tokens in the buffer
  size_t end_ = 0;
};

}  // namespace inferlet::detail
