#include "speech/dummy_model.h"

#include <utility>

#include "model/dummy_vocab.h"
#include "speech/chat_source.h"

namespace pie {
namespace {

// ChatML: <|im_start|>role\ntext<|im_end|>\n. Tools join the system turn, answers of several tools
// share a turn, thoughts stand in <think>, and enable_thinking switches them off, so that tests see
// what real templates do.
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
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{% endif %}
{%- endif %}
)";

}  // namespace

Model MakeDummyModel(std::string name, uint32_t vocab_size) {
  auto tokenizer = TokenizerFromBytes(dummy::kSpecialNames, vocab_size);
  PIE_CHECK(tokenizer);  // the special tokens are constants
  Model model{.name = std::move(name), .tokenizer = *std::move(tokenizer), .chat = nullptr};
  const ChatSource source{
      .text = std::string(kTemplate), .special_tokens = {}, .stop_ids = {dummy::kEos}};
  auto chat = ChatTemplate::Make(source, *model.tokenizer);
  PIE_CHECK(chat);  // the template is a constant
  model.chat = *std::move(chat);
  return model;
}

}  // namespace pie
