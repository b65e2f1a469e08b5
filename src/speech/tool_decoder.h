// ToolDecoder finds the tools that the model calls in its tokens. One owner, one thread.
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
  // Fails for a model whose template writes calls in an unknown format. `types` are those of the
  // tools that are known, and may grow; null if none are.
  static Result<std::unique_ptr<ToolDecoder>> Make(const Model& model,
                                                   std::shared_ptr<const ToolTypes> types = {});

  // Returns the next complete call, if there is one. If the tokens hold several, the next calls of
  // Feed return the others.
  Result<std::optional<ToolCall>> Feed(std::span<const uint32_t> tokens);
  // Whether a call has begun but is not complete, or is complete and was not returned yet.
  bool is_assembling() const { return inside_ || !calls_.empty(); }
  void Reset();
  size_t bytes() const;  // bytes of text that the decoder keeps

 private:
  ToolDecoder(const Model& model, const CallFormat& format, std::shared_ptr<const ToolTypes> types);
  void Read(bool ended);
  bool FindOpen();

  const CallFormat* format_;
  std::shared_ptr<const ToolTypes> types_;
  MarkedText marks_;
  std::string rest_;  // text that was not parsed yet
  std::deque<ToolCall> calls_;
  bool at_start_ = true;  // a call without a mark can only begin at the start of the turn
  bool inside_ = false;
};

}  // namespace pie
