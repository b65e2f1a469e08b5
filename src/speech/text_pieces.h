// TextPieces: the bytes of a text, token by token. Vocabularies of SentencePiece write a space in
// front of the first word, which a reader must not see, whether the tokens come at once or one by
// one. Only this class knows of that space. One owner, one thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "speech/tokenizer.h"

namespace pie {

class TextPieces {
 public:
  explicit TextPieces(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // `token` < vocab_size(). The bytes may end in the middle of a character.
  std::string_view Next(uint32_t token) {
    std::string_view bytes = tokenizer_->Bytes(token);
    if (at_start_ && !bytes.empty()) {
      at_start_ = false;
      if (tokenizer_->drops_leading_space() && bytes.front() == ' ') bytes.remove_prefix(1);
    }
    return bytes;
  }
  void Reset() { at_start_ = true; }

 private:
  const Tokenizer* tokenizer_;
  bool at_start_ = true;
};

}  // namespace pie
