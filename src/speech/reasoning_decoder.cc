#include "speech/reasoning_decoder.h"

#include <utility>

#include "base/utf8.h"

namespace pie {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

const ReasoningFormat* FormatOf(const Model& model) {
  return model.chat->reasoning() ? &*model.chat->reasoning() : nullptr;
}

std::string_view OpenOf(const ReasoningFormat* format) {
  return format == nullptr ? std::string_view() : format->open;
}
std::string_view CloseOf(const ReasoningFormat* format) {
  return format == nullptr ? std::string_view() : format->close;
}

}  // namespace

ReasoningDecoder::ReasoningDecoder(const Model& model, std::optional<bool> begins_inside)
    : format_(FormatOf(model)),
      begins_inside_(begins_inside.value_or(format_ != nullptr && format_->begins_inside)),
      marks_(model, {OpenOf(format_), CloseOf(format_)}, "") {}

Result<ReasoningDecoder::Event> ReasoningDecoder::Feed(std::span<const uint32_t> tokens) {
  if (format_ == nullptr) return Delta{};
  const bool stopped = PIE_TRY(marks_.Append(tokens, rest_));
  bool started = false;
  if (std::exchange(fresh_, false) && begins_inside_) {
    inside_ = started = true;
  }
  if (!inside_) {
    const size_t open = rest_.find(format_->open);
    if (open == std::string::npos) {
      rest_.erase(0, rest_.size() - PartialMark(rest_, format_->open));
      if (stopped) Reset();
      return Delta{};
    }
    rest_.erase(0, open + format_->open.size());
    inside_ = started = true;
  }

  const size_t close = rest_.find(format_->close);
  if (close == std::string::npos && !stopped) {
    Show(rest_.size() - PartialMark(rest_, format_->close));
    if (started) return Start{};
    return Delta{std::exchange(unsent_, {})};
  }
  Show(std::min(close, rest_.size()));
  Complete done{std::exchange(text_, {})};
  unsent_.clear();
  inside_ = false;
  rest_.erase(0, close == std::string::npos ? rest_.size() : close + format_->close.size());
  if (stopped) Reset();  // the next token belongs to the next turn
  return done;
}

void ReasoningDecoder::Show(size_t end) {
  // White space is held back until other text follows it.
  const std::string_view shown = std::string_view(rest_).substr(0, end);
  const size_t last = shown.find_last_not_of(kSpace);
  if (last == std::string_view::npos) {
    if (text_.empty()) rest_.erase(0, end);
    return;
  }
  std::string whole;
  const size_t used = AppendWholeCharacters(shown.substr(0, last + 1), whole);
  if (text_.empty()) whole.erase(0, whole.find_first_not_of(kSpace));
  text_ += whole;
  unsent_ += whole;
  rest_.erase(0, used);
}

void ReasoningDecoder::Reset() {
  marks_.Reset();
  rest_.clear();
  text_.clear();
  unsent_.clear();
  fresh_ = true;
  inside_ = false;
}

}  // namespace pie
