// Model: a loaded model's vocabulary and manner of speaking; no weights, no device. Immutable after
// loading, shared by threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "speech/chat_template.h"

namespace pie {

class Tokenizer {
 public:
  struct Vocabulary {
    std::vector<uint32_t> ids;
    std::vector<std::string> bytes;  // parallel to ids
  };
  virtual ~Tokenizer() = default;
  virtual uint32_t vocab_size() const = 0;
  // Nothing is added in front or behind. Special tokens written in the text become those tokens.
  // Fails on texts that are too long, or that the vocabulary cannot express.
  virtual Result<std::vector<uint32_t>> Encode(std::string_view text) const = 0;
  // The same, but special tokens written in the text are text.
  virtual Result<std::vector<uint32_t>> EncodePlain(std::string_view text) const = 0;
  // Without special tokens. Fails on ids outside the vocabulary. Bytes that are no UTF-8 become
  // U+FFFD.
  Result<std::string> Decode(std::span<const uint32_t> tokens) const;
  // The raw bytes of one token, empty for special tokens. `id` < vocab_size(). A text is its
  // tokens' bytes, less a leading space where drops_leading_space() (see TextPieces).
  virtual std::string_view Bytes(uint32_t id) const = 0;
  virtual bool drops_leading_space() const = 0;
  virtual bool IsSpecial(uint32_t id) const = 0;
  // By the vocabulary's own spelling, such as "<|im_end|>".
  virtual std::optional<uint32_t> Find(std::string_view token) const = 0;
  virtual const Vocabulary& special_tokens() const = 0;  // ids with their names, by id
  // What cuts a text before BPE; empty where nothing does.
  virtual std::string_view split_regex() const = 0;
};

// The bytes of a text, token by token: the one place that knows of the leading space. Vocabularies
// of SentencePiece write a space in front of the first word, and a reader must not see it, whether
// the tokens come at once or one by one. One owner, one thread.
class TextPieces {
 public:
  explicit TextPieces(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  // `token` < vocab_size(). The bytes need not end with a character.
  std::string_view Next(uint32_t token);
  void Reset() { at_start_ = true; }

 private:
  const Tokenizer* tokenizer_;
  bool at_start_ = true;
};

struct Model {
  std::string name;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat;
};

// The model that goes with the dummy backend: 256 byte tokens, a few special ones, ChatML turns.
// `vocab_size` beyond that adds tokens without text (for measuring), and is at least 262.
Model MakeDummyModel(std::string name, uint32_t vocab_size = 0);

}  // namespace pie
