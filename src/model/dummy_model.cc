#include <algorithm>
#include <initializer_list>

#include "base/utf8.h"
#include "model/dummy_vocab.h"
#include "model/model.h"

namespace pie {
namespace {

// One token a byte. Text never becomes a special token: "<|im_end|>" typed by a user is ten bytes.
class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(uint32_t vocab_size) {
    vocabulary_.ids.resize(vocab_size);
    vocabulary_.bytes.resize(vocab_size);  // without text beyond the bytes
    for (uint32_t id = 0; id < vocab_size; ++id) {
      vocabulary_.ids[id] = id;
      if (id < dummy::kByteTokens) vocabulary_.bytes[id].assign(1, static_cast<char>(id));
    }
    for (uint32_t id = dummy::kByteTokens; id < dummy::kVocabSize; ++id) {
      special_.ids.push_back(id);
      special_.bytes.emplace_back(dummy::kSpecialNames[id - dummy::kByteTokens]);
    }
  }

  uint32_t vocab_size() const override { return static_cast<uint32_t>(vocabulary_.ids.size()); }

  std::vector<uint32_t> Encode(std::string_view text) const override {
    std::vector<uint32_t> tokens(text.size());
    std::ranges::transform(text, tokens.begin(), [](char c) { return static_cast<uint8_t>(c); });
    return tokens;
  }

  Result<std::string> Decode(std::span<const uint32_t> tokens) const override {
    std::string bytes;
    bytes.reserve(tokens.size());
    for (uint32_t token : tokens) {
      if (token >= vocab_size()) {
        return Fail(Code::kInvalid, "token {} is outside the vocabulary of {} tokens", token,
                    vocab_size());
      }
      bytes += Bytes(token);
    }
    return ToValidUtf8(bytes);
  }

  std::string_view Bytes(uint32_t id) const override { return vocabulary_.bytes[id]; }
  bool IsSpecial(uint32_t id) const override {
    return id >= dummy::kByteTokens && id < dummy::kVocabSize;
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  const Vocabulary& special_tokens() const override { return special_; }
  std::string_view split_regex() const override { return R"([\s\S])"; }

 private:
  Vocabulary vocabulary_;
  Vocabulary special_;
};

// <|im_start|>role\ntext<|im_end|>\n
class ChatMl final : public ChatTemplate {
 public:
  explicit ChatMl(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  std::vector<uint32_t> System(std::string_view text) const override {
    return Turn("system", text);
  }
  std::vector<uint32_t> User(std::string_view text) const override { return Turn("user", text); }
  std::vector<uint32_t> Assistant(std::string_view text) const override {
    return Turn("assistant", text);
  }
  std::vector<uint32_t> Cue() const override { return Open("assistant"); }
  std::vector<uint32_t> Seal() const override { return {dummy::kImEnd, '\n'}; }
  const std::vector<uint32_t>& stop_tokens() const override { return stop_tokens_; }

 private:
  std::vector<uint32_t> Open(std::string_view role) const {
    std::vector<uint32_t> tokens = {dummy::kImStart};
    Append(tokens, tokenizer_.Encode(role));
    tokens.push_back('\n');
    return tokens;
  }
  std::vector<uint32_t> Turn(std::string_view role, std::string_view text) const {
    std::vector<uint32_t> tokens = Open(role);
    Append(tokens, tokenizer_.Encode(text));
    Append(tokens, Seal());
    return tokens;
  }
  static void Append(std::vector<uint32_t>& tokens, const std::vector<uint32_t>& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  }

  const Tokenizer& tokenizer_;  // of the same Model
  const std::vector<uint32_t> stop_tokens_ = {dummy::kImEnd, dummy::kEos};
};

}  // namespace

Model MakeDummyModel(std::string name, uint32_t vocab_size) {
  Model model;
  model.name = std::move(name);
  model.tokenizer = std::make_unique<ByteTokenizer>(std::max(vocab_size, dummy::kVocabSize));
  model.chat = std::make_unique<ChatMl>(*model.tokenizer);
  return model;
}

}  // namespace pie
