// pie:core/model
#include <algorithm>
#include <numeric>

#include "host/api.h"

namespace pie::host {
namespace {

Result<const Tokenizer*> TokenizerOf(Process& process, uint32_t handle) {
  uint32_t* index = PIE_TRY(process.handles().tokenizers.Get(handle));
  return process.engine().models()[*index].model.tokenizer.get();
}

}  // namespace

bool ModelLoad(void* guest, Str name, uint32_t* model, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    const auto& models = process.engine().models();
    std::string known;
    // "default" is the first, unless another has that name.
    const auto named = [&](const LoadedModel& loaded) { return loaded.model.name == "default"; };
    if (View(name) == "default" && std::ranges::none_of(models, named)) {
      *model = PIE_TRY(process.handles().models.Emplace(0));
      return {};
    }
    for (uint32_t i = 0; i < models.size(); ++i) {
      if (models[i].model.name == View(name)) {
        *model = PIE_TRY(process.handles().models.Emplace(i));
        return {};
      }
      known += (i > 0 ? ", " : "") + models[i].model.name;
    }
    return Fail(Code::kNotFound, "no model is named '{}'; loaded: {}", View(name), known);
  });
}

bool ModelTokenizer(void* guest, uint32_t model, uint32_t* tokenizer, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    uint32_t* index = PIE_TRY(process.handles().models.Get(model));
    *tokenizer = PIE_TRY(process.handles().tokenizers.Emplace(*index));
    return {};
  });
}

bool TokenizerEncode(void* guest, uint32_t tokenizer, Str text, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutWords(out, PIE_TRY(PIE_TRY(TokenizerOf(process, tokenizer))->Encode(View(text))));
    return {};
  });
}

bool TokenizerDecode(void* guest, uint32_t tokenizer, Words tokens, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutText(out, PIE_TRY(PIE_TRY(TokenizerOf(process, tokenizer))->Decode(View(tokens))));
    return {};
  });
}

bool TokenizerVocabs(void* guest, uint32_t tokenizer, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    const Tokenizer& all = *PIE_TRY(TokenizerOf(process, tokenizer));
    std::vector<uint32_t> ids(all.vocab_size());
    std::iota(ids.begin(), ids.end(), 0);
    PutWords(out, ids);
    for (uint32_t id : ids) PutBlob(out, all.Bytes(id));
    return {};
  });
}

bool TokenizerSpecialTokens(void* guest, uint32_t tokenizer, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    const auto& special = PIE_TRY(TokenizerOf(process, tokenizer))->special_tokens();
    PutWords(out, special.ids);
    for (const std::string& name : special.bytes) PutBlob(out, name);
    return {};
  });
}

bool TokenizerSplitRegex(void* guest, uint32_t tokenizer, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutText(out, PIE_TRY(TokenizerOf(process, tokenizer))->split_regex());
    return {};
  });
}

}  // namespace pie::host
