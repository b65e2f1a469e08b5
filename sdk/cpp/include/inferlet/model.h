// Models and their tokenizers. Both are handles: copies mean the same model.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/json.h"
#include "inferlet/result.h"

namespace inferlet {

// Token ids and their bytes.
struct Vocabulary {
  // The id of each token.
  std::vector<uint32_t> ids;
  std::vector<std::string> bytes;  // not always UTF-8
};

// Text to token ids and back.
class Tokenizer {
 public:
  explicit Tokenizer(raw::Tokenizer raw);

  // Encodes a text. A text that the vocabulary cannot express ends the run.
  std::vector<uint32_t> Encode(std::string_view text) const;
  // Encodes a text. Fails if the vocabulary cannot express it.
  Result<std::vector<uint32_t>> TryEncode(std::string_view text) const;
  // Decodes tokens. Special tokens become their names, or are left out. Fails on ids outside the
  // vocabulary.
  Result<std::string> Decode(std::span<const uint32_t> tokens,
                             bool skip_special_tokens = false) const;
  Result<std::string> Decode(std::initializer_list<uint32_t> tokens,
                             bool skip_special_tokens = false) const {
    return Decode(std::span(tokens.begin(), tokens.size()), skip_special_tokens);
  }
  // Returns every token. The result is large, so keep only what you need.
  Vocabulary Vocabs() const;
  // Returns the ids that stand for no text of their own, with their names.
  Vocabulary SpecialTokens() const;
  // The regular expression that splits text before merges apply.
  std::string SplitRegex() const;

  // The engine's handle.
  const raw::Tokenizer& Inner() const { return *raw_; }

 private:
  std::shared_ptr<raw::Tokenizer> raw_;
};

// A model that the engine has loaded.
class Model {
 public:
  // Binds to a model that the engine has loaded; `runtime::Models()` names them.
  static Result<Model> Load(std::string_view name);

  // The model's tokenizer.
  const inferlet::Tokenizer& Tokenizer() const { return state_->tokenizer; }
  // Sets a variable of the model's chat template, such as "enable_thinking", to a text, a
  // boolean or a number; null removes it. It counts for all turns that are written and all decoders
  // that are made from now on with this model or a copy of it; what is written already stays. A
  // variable that the template does not read has no effect. Fails on variables that the engine sets
  // itself, and on values that the template refuses.
  Result<void> TemplateOption(std::string_view name, const Json& value) const;
  // The engine's handle.
  const raw::Model& Inner() const { return state_->raw; }

 private:
  struct State {
    explicit State(raw::Model model) : raw(std::move(model)), tokenizer(raw.Tokenizer()) {}
    raw::Model raw;
    inferlet::Tokenizer tokenizer;
  };
  explicit Model(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace inferlet
