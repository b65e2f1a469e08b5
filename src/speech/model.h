// Model: the vocabulary and the chat template of a loaded model; no weights, no device. It is
// immutable after loading, and shared by threads. speech/open_model.h and speech/dummy_model.h make
// one.
#pragma once

#include <memory>
#include <string>

#include "speech/chat_template.h"
#include "speech/tokenizer.h"

namespace pie {

struct Model {
  std::string name;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat;
};

}  // namespace pie
