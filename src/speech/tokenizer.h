// Tokenizers of real models, over the bridge: the `tokenizers` library of Hugging Face runs them,
// and a GGUF's vocabulary is converted into one. Loading costs tens of milliseconds and a few bytes
// times the vocabulary; what is loaded is immutable and shared by threads.
//
// Neither source is trusted: what is damaged, too big or of a kind not known is an error that says
// so, never an abort.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "model/gguf.h"
#include "speech/model.h"

namespace pie {

// `json`: the content of a tokenizer.json. A model's table of embeddings is often longer than its
// vocabulary: the ids up to `vocab_size` are tokens without text.
Result<std::unique_ptr<Tokenizer>> TokenizerFromJson(std::string_view json,
                                                     uint32_t vocab_size = 0);

// From the keys tokenizer.ggml.*.
Result<std::unique_ptr<Tokenizer>> TokenizerFromGguf(const Gguf& gguf);

}  // namespace pie
