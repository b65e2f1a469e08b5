// MarkedText turns a turn's tokens into a text in which a format's marks can be found, whether the
// marks are special tokens or not. A special token that belongs to no mark becomes `others`. One
// owner, one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "speech/model.h"
#include "speech/text_pieces.h"

namespace pie {

class MarkedText {
 public:
  MarkedText(const Model& model, std::initializer_list<std::string_view> marks,
             std::string_view others)
      : model_(&model), bytes_(*model.tokenizer), others_(others) {
    const auto& special = model.tokenizer->special_tokens();
    for (size_t i = 0; i < special.ids.size(); ++i) {
      const auto holds = [&](std::string_view mark) {
        return mark.find(special.bytes[i]) != std::string_view::npos;
      };
      if (std::ranges::any_of(marks, holds)) names_.emplace(special.ids[i], special.bytes[i]);
    }
  }

  // Appends to `text`, up to the first stop token. Returns whether there was one. Fails on ids
  // outside the vocabulary, and then appends nothing.
  Result<bool> Append(std::span<const uint32_t> tokens, std::string& text) {
    const Tokenizer& tokenizer = *model_->tokenizer;
    PIE_RETURN_IF_ERROR(tokenizer.CheckInVocabulary(tokens));
    const auto& stops = model_->chat->stop_tokens();
    for (uint32_t token : tokens) {
      if (std::ranges::find(stops, token) != stops.end()) return true;
      if (!tokenizer.IsSpecial(token)) {
        text += bytes_.Next(token);
      } else {
        const auto name = names_.find(token);
        text += name != names_.end() ? name->second : others_;
      }
    }
    return false;
  }
  void Reset() { bytes_.Reset(); }

 private:
  const Model* model_;
  TextPieces bytes_;
  std::string_view others_;
  std::unordered_map<uint32_t, std::string_view> names_;
};

// The number of bytes at the end of `text` that could be the beginning of `mark`.
inline size_t PartialMark(std::string_view text, std::string_view mark) {
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (mark.starts_with(text.substr(text.size() - size))) return size;
  }
  return 0;
}

}  // namespace pie
