#include <algorithm>
#include <array>
#include <initializer_list>

#include "model/dummy_vocab.h"
#include "speech/chat_source.h"
#include "speech/model.h"

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

// ChatML: <|im_start|>role\ntext<|im_end|>\n. Tools join the system turn, answers of several tools
// share a turn, thoughts stand in <think>: enough for what a real template does to be seen here.
constexpr std::string_view kTemplate = R"(
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages and messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{% endif %}
    {{- '# Tools' }}
    {%- for tool in tools %}{{- '\n' + tool | tojson }}{% endfor %}
    {{- '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>tool' }}{% endif %}
        {{- '\n' + message.content }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}{% endif %}
    {%- elif not (tools and loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\n' }}
        {%- if message.reasoning_content %}{{- '<think>\n' + message.reasoning_content + '\n</think>\n' }}{% endif %}
        {{- message.content if message.content is string }}
        {%- for call in message.tool_calls or [] %}
            {{- '<tool_call>\n' + {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}
            {{- '\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}
)";

}  // namespace

Model MakeDummyModel(std::string name, uint32_t vocab_size) {
  Model model;
  model.name = std::move(name);
  model.tokenizer = std::make_unique<ByteTokenizer>(std::max(vocab_size, dummy::kVocabSize));
  const ChatSource source{
      .text = std::string(kTemplate), .special_tokens = {}, .stop_ids = {dummy::kEos}};
  auto chat = ChatTemplate::Make(source, *model.tokenizer, {.plain_text = true});
  PIE_CHECK(chat);  // the template above is ours
  model.chat = std::move(*chat);
  return model;
}

}  // namespace pie
