#include "cli/dummy_tokens.h"

#include <algorithm>
#include <string_view>

namespace pie::cli {
namespace {

DummyToken KindOf(std::string_view bytes) {
  const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  if (bytes.empty() || !std::ranges::all_of(bytes, is_printable)) return DummyToken::kOther;
  if (bytes.front() == ' ') bytes.remove_prefix(1);
  const bool is_word = !bytes.empty() && std::ranges::all_of(bytes, is_letter);
  return is_word ? DummyToken::kWord : DummyToken::kText;
}

}  // namespace

std::vector<DummyToken> DummyTokensOf(const Model& model) {
  const Tokenizer& tokenizer = *model.tokenizer;
  std::vector<DummyToken> tokens(tokenizer.vocab_size());
  for (uint32_t id = 0; id < tokens.size(); ++id) tokens[id] = KindOf(tokenizer.Bytes(id));
  for (const uint32_t id : tokenizer.special_tokens().ids) tokens[id] = DummyToken::kSpecial;
  for (const uint32_t id : model.chat->stop_tokens()) tokens[id] = DummyToken::kEnd;
  return tokens;
}

}  // namespace pie::cli
