#include <algorithm>
#include <array>
#include <initializer_list>

#include "model/dummy_vocab.h"
#include "model/model.h"

namespace pie {
namespace {

// One token a byte. Text never becomes a special token: "<|im_end|>" typed by a user is ten bytes.
class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(uint32_t vocab_size) : vocab_size_(vocab_size) {
    for (uint32_t byte = 0; byte < dummy::kByteTokens; ++byte) {
      bytes_[byte] = static_cast<char>(byte);
    }
    for (uint32_t id = dummy::kByteTokens; id < dummy::kVocabSize; ++id) {
      special_.ids.push_back(id);
      special_.bytes.emplace_back(dummy::kSpecialNames[id - dummy::kByteTokens]);
    }
  }

  uint32_t vocab_size() const override { return vocab_size_; }

  Result<std::vector<uint32_t>> Encode(std::string_view text) const override {
    return Tokens(text);
  }
  Result<std::vector<uint32_t>> EncodePlain(std::string_view text) const override {
    return Tokens(text);
  }
  static std::vector<uint32_t> Tokens(std::string_view text) {
    std::vector<uint32_t> tokens(text.size());
    std::ranges::transform(text, tokens.begin(), [](char c) { return static_cast<uint8_t>(c); });
    return tokens;
  }

  std::string_view Bytes(uint32_t id) const override {
    return id < dummy::kByteTokens ? std::string_view(&bytes_[id], 1) : std::string_view();
  }
  bool drops_leading_space() const override { return false; }
  bool IsSpecial(uint32_t id) const override {
    return id >= dummy::kByteTokens && id < dummy::kVocabSize;
  }
  std::optional<uint32_t> Find(std::string_view token) const override {
    const auto found = std::ranges::find(special_.bytes, token);
    if (found != special_.bytes.end()) return special_.ids[found - special_.bytes.begin()];
    if (token.size() == 1) return static_cast<uint8_t>(token[0]);
    return std::nullopt;
  }
  const Vocabulary& special_tokens() const override { return special_; }
  std::string_view split_regex() const override { return R"([\s\S])"; }

 private:
  uint32_t vocab_size_;  // without text beyond the bytes
  std::array<char, dummy::kByteTokens> bytes_;
  Vocabulary special_;
};

// <|im_start|>role\ntext<|im_end|>\n
class ChatMl final : public ChatTemplate {
 public:
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
  static std::vector<uint32_t> Open(std::string_view role) {
    std::vector<uint32_t> tokens = {dummy::kImStart};
    Append(tokens, ByteTokenizer::Tokens(role));
    tokens.push_back('\n');
    return tokens;
  }
  std::vector<uint32_t> Turn(std::string_view role, std::string_view text) const {
    std::vector<uint32_t> tokens = Open(role);
    Append(tokens, ByteTokenizer::Tokens(text));
    Append(tokens, Seal());
    return tokens;
  }
  static void Append(std::vector<uint32_t>& tokens, const std::vector<uint32_t>& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  }

  const std::vector<uint32_t> stop_tokens_ = {dummy::kImEnd, dummy::kEos};
};

}  // namespace

Model MakeDummyModel(std::string name, uint32_t vocab_size) {
  Model model;
  model.name = std::move(name);
  model.tokenizer = std::make_unique<ByteTokenizer>(std::max(vocab_size, dummy::kVocabSize));
  model.chat = std::make_unique<ChatMl>();
  return model;
}

}  // namespace pie
