#include "speech/tool_decoder.h"

#include <utility>

#include "base/utf8.h"
#include "model/limits.h"

namespace pie {

Result<std::unique_ptr<ToolDecoder>> ToolDecoder::Make(const Model& model,
                                                       std::shared_ptr<const ToolTypes> types) {
  if (!model.chat->calls()) {
    return Fail(Code::kUnavailable,
                "model '{}' writes tool calls in a format that is not known; parse its text",
                model.name);
  }
  return std::unique_ptr<ToolDecoder>(
      new ToolDecoder(model, *model.chat->calls(), std::move(types)));
}

ToolDecoder::ToolDecoder(const Model& model, const CallFormat& format,
                         std::shared_ptr<const ToolTypes> types)
    : format_(&format),
      types_(std::move(types)),
      // A special token ends a name, and counts as space between JSON values.
      marks_(model, {format.open, format.close, format.first, format.middle, format.last}, " ") {}

Result<std::optional<ToolCall>> ToolDecoder::Feed(std::span<const uint32_t> tokens) {
  const bool stopped = PIE_TRY(marks_.Append(tokens, rest_));
  Read(stopped);
  if (rest_.size() > limits::kToolCallBytes) {  // no call is that long
    rest_.clear();
    inside_ = false;
  }
  if (stopped) {  // the next token belongs to the next turn
    auto calls = std::exchange(calls_, {});
    Reset();
    calls_ = std::move(calls);
  }
  if (calls_.empty()) return std::nullopt;
  ToolCall call = std::move(calls_.front());
  calls_.pop_front();
  return call;
}

void ToolDecoder::Read(bool ended) {
  while (!rest_.empty()) {
    if (!inside_ && !FindOpen()) return;
    ParsedCalls parsed = ParseCall(*format_, rest_, ended, types_.get());
    if (parsed.used == 0) return;
    for (ToolCall& call : parsed.calls) {
      calls_.push_back({ToValidUtf8(call.name), ToValidUtf8(call.arguments)});
    }
    rest_.erase(0, parsed.used);
    inside_ = false;
  }
}

bool ToolDecoder::FindOpen() {
  if (!format_->open.empty()) {
    const size_t open = rest_.find(format_->open);
    if (open == std::string::npos) {
      rest_.erase(0, rest_.size() - PartialMark(rest_, format_->open));
      return false;
    }
    rest_.erase(0, open + format_->open.size());
    return inside_ = true;
  }
  // A call without a mark is the whole turn, or follows another call.
  const size_t first = rest_.find_first_not_of(" \t\r\n;,");
  if (first == std::string::npos) return false;
  if (!at_start_ || (rest_[first] != '{' && rest_[first] != '[')) {
    at_start_ = false;
    rest_.clear();
    return false;
  }
  rest_.erase(0, first);
  return inside_ = true;
}

void ToolDecoder::Reset() {
  marks_.Reset();
  rest_.clear();
  calls_.clear();
  at_start_ = true;
  inside_ = false;
}

size_t ToolDecoder::bytes() const {
  size_t bytes = rest_.size();
  for (const ToolCall& call : calls_)
    bytes += sizeof(call) + call.name.size() + call.arguments.size();
  return bytes;
}

}  // namespace pie
