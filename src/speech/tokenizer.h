// Tokenizer: text to tokens and back. It runs in the text crate, behind the bridge; the table of
// the tokens' bytes is read here, without a call. Loading takes tens of milliseconds and a few
// bytes per token of the vocabulary. A loaded tokenizer is immutable and shared by threads.
//
// The sources are not trusted: a file that is damaged, too big or of an unknown kind is an error
// that says so, never an abort.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"

namespace pie_bridge {
struct Tokenizer;
}

namespace pie {

class Tokenizer {
 public:
  struct Vocabulary {
    std::vector<uint32_t> ids;
    std::vector<std::string> bytes;  // parallel to ids
  };

  // Takes over `raw`, which the bridge has loaded.
  explicit Tokenizer(pie_bridge::Tokenizer* raw);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  uint32_t vocab_size() const { return static_cast<uint32_t>(ends_.size()); }
  // Fails on a token that is not in the vocabulary.
  Status CheckInVocabulary(std::span<const uint32_t> tokens) const;
  // Encodes a text, and adds no tokens before or after it. Names of special tokens in the text
  // become those tokens, except in a vocabulary of bytes. Fails on texts that are too long, or that
  // the vocabulary cannot express.
  Result<std::vector<uint32_t>> Encode(std::string_view text) const;
  // Encodes a text in which the names of special tokens are ordinary text.
  Result<std::vector<uint32_t>> EncodePlain(std::string_view text) const;
  // Decodes tokens. Special tokens become their names. Fails on ids outside the vocabulary. Bytes
  // that are not UTF-8 become U+FFFD.
  Result<std::string> Decode(std::span<const uint32_t> tokens) const;
  // The raw bytes of one token, empty for special tokens. `id` < vocab_size(). A text is its
  // tokens' bytes, less a leading space where drops_leading_space() (see TextPieces).
  std::string_view Bytes(uint32_t id) const {
    const uint32_t begin = id == 0 ? 0 : ends_[id - 1];
    return bytes_.substr(begin, ends_[id] - begin);
  }
  bool drops_leading_space() const { return drops_leading_space_; }
  bool IsSpecial(uint32_t id) const { return NameOf(id).has_value(); }
  // The name of a special token.
  std::optional<std::string_view> NameOf(uint32_t id) const;
  // Finds a special token by its spelling in the vocabulary, such as "<|im_end|>".
  std::optional<uint32_t> Find(std::string_view token) const;
  const Vocabulary& special_tokens() const { return special_; }  // ids with their names, by id
  // The regular expression that splits a text before BPE; empty if the text is not split.
  std::string_view split_regex() const { return split_regex_; }

  const pie_bridge::Tokenizer* raw() const { return raw_; }

 private:
  Result<std::vector<uint32_t>> Encode(std::string_view text, bool plain) const;

  pie_bridge::Tokenizer* raw_;
  std::string_view bytes_;          // of all tokens; borrowed from raw_, as are the next two
  std::span<const uint32_t> ends_;  // where each token's bytes end
  std::string_view split_regex_;
  bool drops_leading_space_;
  Vocabulary special_;
};

// `json` is the content of a tokenizer.json. A model's table of embeddings is often longer than its
// vocabulary: further ids up to `vocab_size` are tokens without text.
Result<std::unique_ptr<Tokenizer>> TokenizerFromJson(std::string_view json,
                                                     uint32_t vocab_size = 0);

// Makes a tokenizer from the keys tokenizer.ggml.* of a GGUF file.
Result<std::unique_ptr<Tokenizer>> TokenizerFromGguf(const Gguf& gguf);

// Makes a tokenizer in which every byte is a token. The special tokens `specials` follow the bytes,
// then tokens without text up to `vocab_size`. A text never becomes a special token.
Result<std::unique_ptr<Tokenizer>> TokenizerFromBytes(std::span<const std::string_view> specials,
                                                      uint32_t vocab_size);

// Returns whether every token has the same meaning in both vocabularies.
bool HaveSameVocabulary(const Tokenizer& a, const Tokenizer& b);

}  // namespace pie
