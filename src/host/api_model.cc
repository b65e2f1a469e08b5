// pie:core/model
#include <algorithm>
#include <numeric>

#include "host/api.h"
#include "host/execute.h"

namespace pie::host {
namespace {

Result<const Tokenizer*> TokenizerOf(Process& process, uint32_t handle) {
  uint32_t* index = PIE_TRY(process.handles().tokenizers.Get(handle));
  return process.engine().models()[*index].model.tokenizer.get();
}

}  // namespace

Result<uint32_t> ModelLoad(Process& process, std::string_view name) {
  PIE_RETURN_IF_ERROR(CheckName(name));
  const auto& models = process.engine().models();
  std::string known;
  // "default" means the first model, unless a model has that name.
  const auto named = [&](const LoadedModel& loaded) { return loaded.model.name == "default"; };
  if (name == "default" && std::ranges::none_of(models, named)) {
    return NewModel(process, 0);
  }
  for (uint32_t i = 0; i < models.size(); ++i) {
    if (models[i].model.name == name) {
      return NewModel(process, i);
    }
    known += (i > 0 ? ", " : "") + models[i].model.name;
  }
  return Fail(Code::kNotFound, "no model is named '{}'; loaded: {}", name, known);
}

Result<uint32_t> ModelTokenizer(Process& process, uint32_t model) {
  const uint32_t index = PIE_TRY(ModelIndex(process, model));
  return process.handles().tokenizers.Emplace(index);
}

Result<std::vector<uint32_t>> TokenizerEncode(Process& process, uint32_t tokenizer,
                                              std::string_view text) {
  const size_t most = process.engine().limits().max_text_bytes;
  if (text.size() > most) {
    return Fail(Code::kExhausted, "the text to encode has {} bytes; at most {} MiB are allowed",
                text.size(), most >> 20);
  }
  return PIE_TRY(TokenizerOf(process, tokenizer))->Encode(text);
}

Result<std::string> TokenizerDecode(Process& process, uint32_t tokenizer,
                                    std::span<const uint32_t> tokens) {
  PIE_RETURN_IF_ERROR(CheckTokenCount(process, tokens));
  return PIE_TRY(TokenizerOf(process, tokenizer))->Decode(tokens);
}

Result<std::tuple<std::vector<uint32_t>, std::vector<std::string>>> TokenizerVocabs(
    Process& process, uint32_t tokenizer) {
  const Tokenizer& all = *PIE_TRY(TokenizerOf(process, tokenizer));
  std::vector<uint32_t> ids(all.vocab_size());
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<std::string> bytes;
  bytes.reserve(ids.size());
  for (uint32_t id : ids) bytes.emplace_back(all.Bytes(id));
  return std::tuple(std::move(ids), std::move(bytes));
}

Result<std::tuple<std::vector<uint32_t>, std::vector<std::string>>> TokenizerSpecialTokens(
    Process& process, uint32_t tokenizer) {
  const auto& special = PIE_TRY(TokenizerOf(process, tokenizer))->special_tokens();
  return std::tuple(special.ids, special.bytes);
}

Result<std::string> TokenizerSplitRegex(Process& process, uint32_t tokenizer) {
  return std::string(PIE_TRY(TokenizerOf(process, tokenizer))->split_regex());
}

Status ModelDrop(Process& process, uint32_t model) {
  process.handles().models.Remove(model);
  return {};
}

Status TokenizerDrop(Process& process, uint32_t tokenizer) {
  process.handles().tokenizers.Remove(tokenizer);
  return {};
}

}  // namespace pie::host
