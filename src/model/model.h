// Model: a loaded model's vocabulary and manner of speaking; no weights, no device. Immutable after
// loading, shared by threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pie {

class Tokenizer {
 public:
  struct Vocabulary {
    std::vector<uint32_t> ids;
    std::vector<std::string> bytes;  // parallel to ids
  };
  virtual ~Tokenizer() = default;
  virtual uint32_t vocab_size() const = 0;
  virtual std::vector<uint32_t> Encode(std::string_view text) const = 0;
  // Fails on ids outside the vocabulary. Bytes that are no UTF-8 become U+FFFD.
  virtual Result<std::string> Decode(std::span<const uint32_t> tokens) const = 0;
  // The raw bytes of one token, empty for special tokens. `id` < vocab_size().
  virtual std::string_view Bytes(uint32_t id) const = 0;
  virtual bool IsSpecial(uint32_t id) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual const Vocabulary& special_tokens() const = 0;  // ids with their names
  virtual std::string_view split_regex() const = 0;
};

// Chat turns as tokens, the way this model's template writes them.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  virtual std::vector<uint32_t> System(std::string_view text) const = 0;
  virtual std::vector<uint32_t> User(std::string_view text) const = 0;
  virtual std::vector<uint32_t> Assistant(std::string_view text) const = 0;
  virtual std::vector<uint32_t> Cue() const = 0;
  virtual std::vector<uint32_t> Seal() const = 0;
  virtual const std::vector<uint32_t>& stop_tokens() const = 0;
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
