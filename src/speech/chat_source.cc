#include "speech/chat_source.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/json_fields.h"
#include "model/json_text.h"
#include "model/limits.h"
#include "model/mapped_file.h"

namespace pie {
namespace {

using nlohmann::json;

constexpr uint32_t kJsonDepth = 64;

constexpr std::pair<const char*, const char*> kGgufTokens[] = {
    {"bos_token", "tokenizer.ggml.bos_token_id"},
    {"eos_token", "tokenizer.ggml.eos_token_id"},
    {"unk_token", "tokenizer.ggml.unknown_token_id"},
    {"pad_token", "tokenizer.ggml.padding_token_id"},
};
// Names of tokens that end a turn or a message, besides eos.
constexpr const char* kGgufStops[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                      "tokenizer.ggml.eom_token_id"};

std::optional<uint32_t> IdOf(const Gguf& gguf, const char* key) {
  const GgufValue* const value = gguf.Find(key);
  const std::optional<int64_t> id = value == nullptr ? std::nullopt : value->Integer();
  if (!id || *id < 0 || *id > limits::kVocabSize) return {};
  return static_cast<uint32_t>(*id);
}

void AddStop(std::vector<uint32_t>& stops, uint32_t id) {
  if (std::ranges::find(stops, id) == stops.end()) stops.push_back(id);
}

// The content of a JSON file in the folder, or nothing if the file is absent.
Result<std::optional<std::string>> ReadText(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const MappedFile file = PIE_TRY(MappedFile::Open(path));
  if (file.bytes().size() > limits::kConfigBytes) {
    return Fail(Code::kInvalid, "{} has {} bytes; at most {} are read", path.string(),
                file.bytes().size(), limits::kConfigBytes);
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

Result<json> ReadJson(const std::filesystem::path& path) {
  const auto text = PIE_TRY(ReadText(path));
  if (!text) return json::object();
  return ParseJsonObject(*text, path.string(), kJsonDepth);
}

// The files write a token as its text, or as an object with the text under "content".
std::string SpecialText(const json* value) {
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  return value->is_object() ? JsonFields(*value).Text("content") : "";
}

// A file has one template, or several named ones. The one named "default" is for chatting.
std::string TemplateText(const json* value) {
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array()) return "";
  for (const json& named : *value) {
    if (!named.is_object()) continue;
    const JsonFields fields(named);
    if (fields.Text("name") == "default") return fields.Text("template");
  }
  return "";
}

void AddStops(const json* value, std::vector<uint32_t>& stops) {
  if (value == nullptr) return;
  for (const json& id : value->is_array() ? *value : json::array({*value})) {
    if (!id.is_number_unsigned()) continue;
    if (id.get<uint64_t>() <= limits::kVocabSize) AddStop(stops, id.get<uint32_t>());
  }
}

}  // namespace

ChatSource ReadChatSource(const Gguf& gguf, const Tokenizer& tokenizer) {
  ChatSource source;
  if (const GgufValue* text = gguf.Find("tokenizer.chat_template")) {
    source.text = std::string(text->String().value_or(""));
  }
  const Tokenizer::Vocabulary& special = tokenizer.special_tokens();
  for (const auto& [variable, key] : kGgufTokens) {
    const std::optional<uint32_t> id = IdOf(gguf, key);
    if (!id) continue;
    const auto found = std::ranges::find(special.ids, *id);
    if (found == special.ids.end()) continue;
    source.special_tokens[variable] = special.bytes[found - special.ids.begin()];
  }
  for (const char* key : kGgufStops) {
    const std::optional<uint32_t> id = IdOf(gguf, key);
    if (id && *id < tokenizer.vocab_size()) AddStop(source.stop_ids, *id);
  }
  return source;
}

Result<ChatSource> ReadChatSource(const std::filesystem::path& folder) {
  ChatSource source;
  const json config = PIE_TRY(ReadJson(folder / "tokenizer_config.json"));
  const JsonFields fields(config);
  source.text = TemplateText(fields.Find("chat_template"));
  if (auto text = PIE_TRY(ReadText(folder / "chat_template.jinja"))) source.text = *std::move(text);
  for (const auto& [variable, key] : kGgufTokens) {
    if (std::string text = SpecialText(fields.Find(variable)); !text.empty()) {
      source.special_tokens[variable] = std::move(text);
    }
  }
  for (const char* name : {"generation_config.json", "config.json"}) {
    const json file = PIE_TRY(ReadJson(folder / name));
    AddStops(JsonFields(file).Find("eos_token_id"), source.stop_ids);
    if (!source.stop_ids.empty()) break;  // generation_config.json has precedence
  }
  return source;
}

}  // namespace pie
