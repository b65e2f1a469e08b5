#include "speech/tokenizer.h"

#include <algorithm>

#include "abi/out.h"
#include "abi/text.h"
#include "base/utf8.h"
#include "speech/text_pieces.h"
#include "speech/tokenizer_memory.h"

namespace pie {

Tokenizer::Tokenizer(pie_bridge::Tokenizer* raw) : raw_(raw) {
  const pie_bridge::TokenTable table = pie_bridge::pie_tokenizer_table(raw_);
  bytes_ = abi::View(table.bytes);
  ends_ = {table.ends.ptr, table.ends.len};
  split_regex_ = abi::View(table.split_regex);
  drops_leading_space_ = table.drops_leading_space;
  for (size_t i = 0; i < table.specials; ++i) {
    const pie_bridge::SpecialToken special = pie_bridge::pie_tokenizer_special(raw_, i);
    special_.ids.push_back(special.id);
    special_.bytes.emplace_back(abi::View(special.name));
  }
}

Tokenizer::~Tokenizer() {
  pie_bridge::pie_tokenizer_free(raw_);
}

Result<std::vector<uint32_t>> Tokenizer::Encode(std::string_view text) const {
  return Encode(text, false);
}

Result<std::vector<uint32_t>> Tokenizer::EncodePlain(std::string_view text) const {
  return Encode(text, true);
}

Result<std::vector<uint32_t>> Tokenizer::Encode(std::string_view text, bool plain) const {
  abi::Out out;
  if (!pie_bridge::pie_tokenizer_encode(raw_, abi::ToStr(text), plain, out.get())) {
    return Fail(Code::kInvalid, "{}", out.error());
  }
  return out.words();
}

Status Tokenizer::CheckInVocabulary(std::span<const uint32_t> tokens) const {
  for (const uint32_t token : tokens) {
    if (token < vocab_size()) continue;
    return Fail(Code::kInvalid, "token {} is outside the vocabulary of {} tokens", token,
                vocab_size());
  }
  return {};
}

Result<std::string> Tokenizer::Decode(std::span<const uint32_t> tokens) const {
  PIE_RETURN_IF_ERROR(CheckInVocabulary(tokens));
  std::string bytes;
  TextPieces text(*this);
  for (uint32_t token : tokens) {
    const std::string_view piece = text.Next(token);
    bytes += piece.empty() ? NameOf(token).value_or("") : piece;
  }
  return ToValidUtf8(bytes);
}

std::optional<std::string_view> Tokenizer::NameOf(uint32_t id) const {
  const auto found = std::ranges::lower_bound(special_.ids, id);
  if (found == special_.ids.end() || *found != id) return std::nullopt;
  return special_.bytes[found - special_.ids.begin()];
}

std::optional<uint32_t> Tokenizer::Find(std::string_view token) const {
  uint32_t id = 0;
  if (!pie_bridge::pie_tokenizer_find(raw_, abi::ToStr(token), &id)) return std::nullopt;
  return id;
}

Result<std::unique_ptr<Tokenizer>> TokenizerFromJson(std::string_view json, uint32_t vocab_size) {
  abi::Out out;
  auto* raw = pie_bridge::pie_tokenizer_from_json(abi::ToStr(json), vocab_size, out.get());
  ReturnFreedMemory();
  if (raw == nullptr) return Fail(Code::kInvalid, "tokenizer.json: {}", out.error());
  return std::make_unique<Tokenizer>(raw);
}

Result<std::unique_ptr<Tokenizer>> TokenizerFromBytes(std::span<const std::string_view> specials,
                                                      uint32_t vocab_size) {
  std::vector<pie_bridge::Str> names;
  for (std::string_view name : specials) names.push_back(abi::ToStr(name));
  abi::Out out;
  auto* raw =
      pie_bridge::pie_tokenizer_from_bytes({names.data(), names.size()}, vocab_size, out.get());
  if (raw == nullptr) return Fail(Code::kInvalid, "the vocabulary of bytes: {}", out.error());
  return std::make_unique<Tokenizer>(raw);
}

bool HaveSameVocabulary(const Tokenizer& a, const Tokenizer& b) {
  if (a.vocab_size() != b.vocab_size()) return false;
  for (uint32_t id = 0; id < a.vocab_size(); ++id) {
    if (a.Bytes(id) != b.Bytes(id)) return false;
  }
  return a.special_tokens().ids == b.special_tokens().ids &&
         a.special_tokens().bytes == b.special_tokens().bytes;
}

}  // namespace pie
