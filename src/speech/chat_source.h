// ChatSource: what a model's files say about chatting, as they say it; a ChatTemplate is made of
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "speech/tokenizer.h"

namespace pie {

struct ChatSource {
  std::string text;  // the Jinja template; empty: the model has none
  // Variables that templates know: bos_token, eos_token, unk_token, pad_token → the token's text.
  std::map<std::string, std::string> special_tokens;
  std::vector<uint32_t> stop_ids;  // tokens that end a turn, as far as the files name them
};

// From tokenizer.chat_template and the ids beside it; `tokenizer` gives their texts.
ChatSource ReadChatSource(const Gguf& gguf, const Tokenizer& tokenizer);

// From tokenizer_config.json, chat_template.jinja and generation_config.json, as far as they are
// there. Fails on files that cannot be read.
Result<ChatSource> ReadChatSource(const std::filesystem::path& folder);

}  // namespace pie
