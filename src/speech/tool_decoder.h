// ToolDecoder: tokens → the tools that the model calls, in its own format. One owner, one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "speech/marked_text.h"
#include "speech/model.h"
#include "speech/tool_call.h"

namespace pie {

class ToolDecoder {
 public:
  // Fails for a model whose template writes calls in a way that is not known here.
  static Result<std::unique_ptr<ToolDecoder>> Make(const Model& model);

  // The next complete call, if there is one. Several in one batch of tokens come one a call.
  Result<std::optional<ToolCall>> Feed(std::span<const uint32_t> tokens);
  // Whether a call has begun, or waits to be given out.
  bool is_assembling() const { return inside_ || !calls_.empty(); }
  void Reset();

 private:
  ToolDecoder(const Model& model, const CallFormat& format);
  void Read(bool ended);
  bool FindOpen();

  const CallFormat* format_;
  MarkedText marks_;
  std::string rest_;  // not yet understood
  std::deque<ToolCall> calls_;
  bool at_start_ = true;  // of the turn: a call without a mark can only begin here
  bool inside_ = false;
};

}  // namespace pie
