#include "speech/model.h"

#include "base/utf8.h"

namespace pie {

std::string_view TextPieces::Next(uint32_t token) {
  std::string_view bytes = tokenizer_->Bytes(token);
  if (at_start_ && !bytes.empty()) {
    at_start_ = false;
    if (tokenizer_->drops_leading_space() && bytes.front() == ' ') bytes.remove_prefix(1);
  }
  return bytes;
}

Result<std::string> Tokenizer::Decode(std::span<const uint32_t> tokens) const {
  std::string bytes;
  TextPieces text(*this);
  for (uint32_t token : tokens) {
    if (token >= vocab_size()) {
      return Fail(Code::kInvalid, "token {} is outside the vocabulary of {} tokens", token,
                  vocab_size());
    }
    bytes += text.Next(token);
  }
  return ToValidUtf8(bytes);
}

}  // namespace pie
