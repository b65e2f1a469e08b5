#include "speech/chat_decoder.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"

namespace pie {

Result<ChatDecoder::Event> ChatDecoder::Feed(std::span<const uint32_t> tokens) {
  const Tokenizer& tokenizer = *model_->tokenizer;
  // Checked first, so that a refused call changes nothing.
  PIE_RETURN_IF_ERROR(tokenizer.CheckInVocabulary(tokens));

  const auto& stops = model_->chat->stop_tokens();
  std::optional<uint32_t> control;
  bool stopped = false;
  for (uint32_t token : tokens) {
    if (std::ranges::find(stops, token) != stops.end()) {
      stopped = true;
      break;
    }
    if (tokenizer.IsSpecial(token)) {
      if (!control) control = token;
      continue;
    }
    partial_ += bytes_.Next(token);
  }

  const size_t old_size = text_.size();
  partial_.erase(0, AppendWholeCharacters(partial_, text_));
  unsent_.append(text_, old_size);

  if (stopped) {
    Done done{std::move(text_) + ToValidUtf8(partial_)};
    Reset();  // the next token belongs to the next turn
    return done;
  }
  if (control) return Interrupt{*control};
  return Delta{std::exchange(unsent_, {})};
}

void ChatDecoder::Reset() {
  text_.clear();
  unsent_.clear();
  partial_.clear();
  bytes_.Reset();
}

}  // namespace pie
