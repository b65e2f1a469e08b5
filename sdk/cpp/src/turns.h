// Which chat turns a context has, so that the next one is written as the model's template writes it
// there.
//
// A template renders whole conversations: where a turn stands changes what it adds. Turns whose
// tokens are still the end of the buffer are pending and are rendered together, so while nothing is
// flushed the buffer is the template's own rendering. Anything else that touches the buffer settles
// them: from then on only their kinds are known.
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

  // Of a context whose turns nobody knows.
  static Turns InTheMiddle();

  // Adds a turn's tokens to the buffer, and writes those of the pending ones anew.
  Result<void> Add(const Model& model, std::vector<uint32_t>& buffer, Turn turn);
  // The buffer goes its own way: only the kinds of the turns are known from here on.
  void Settle();
  // The model's turn is closed.
  void Seal();

 private:
  std::vector<Kind> settled_;
  std::vector<Turn> pending_;
  size_t start_ = 0;  // of the pending turns' tokens in the buffer
  size_t end_ = 0;
};

}  // namespace inferlet::detail
