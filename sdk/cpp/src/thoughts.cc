#include "thoughts.h"

#include <algorithm>
#include <vector>

#include "inferlet/json.h"
#include "inferlet/reasoning.h"

namespace inferlet::detail {
namespace {

constexpr std::pair<const char*, const char*> kPairs[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"<|channel>thought", "<channel|>"},
    {"<thinking>", "</thinking>"},
    {"<thought>", "</thought>"},
};

}  // namespace

Result<std::optional<Thoughts>> Thoughts::Of(const Model& model) {
  const Tokenizer& tokenizer = model.Tokenizer();
  const Vocabulary special = tokenizer.SpecialTokens();
  const auto mark_of = [&](const char* text) {
    const auto found = std::ranges::find(special.bytes, text);
    if (found == special.bytes.end()) return Mark{text, std::nullopt};
    return Mark{text, special.ids[found - special.bytes.begin()]};
  };
  const auto append = [&](const Mark& mark, std::vector<uint32_t>& tokens) {
    if (mark.id) {
      tokens.push_back(*mark.id);
    } else {
      tokens.append_range(tokenizer.Encode(mark.text));
    }
  };
  const auto event_of = [&](std::span<const uint32_t> tokens) {
    return reasoning::Decoder(model).Feed(tokens);
  };
  const std::vector<uint32_t> inner = tokenizer.Encode("a");
  const bool begun = std::holds_alternative<reasoning::Start>(PIE_TRY_SYNC(event_of(inner)));
  for (const auto& [opening, closing] : kPairs) {
    const Mark open = mark_of(opening), close = mark_of(closing);
    std::vector<uint32_t> whole;
    append(open, whole);
    whole.append_range(inner);
    append(close, whole);
    if (std::holds_alternative<reasoning::End>(PIE_TRY_SYNC(event_of(whole)))) {
      return Thoughts(open, close, begun);
    }
  }
  return std::nullopt;
}

std::string Thoughts::Written(const Mark& mark) {
  if (mark.id) return "<[" + std::to_string(*mark.id) + "]>";
  return Json(mark.text).Dump();
}

std::string Thoughts::Grammar(std::string_view schema) const {
  const std::string close = Written(close_);
  const std::string rest =
      close_.id ? "rest: /(?s:.*)/ " + close : "rest[suffix=" + close + "]: /(?s:.*)/";
  const std::string thoughts = begun_ ? "rest SPACE" : "(" + Written(open_) + " rest SPACE)?";
  return "start: " + thoughts + " document\n" + rest +
         "\nSPACE: /[ \\n\\r\\t]{0,8}/\ndocument: %json " + std::string(schema) + "\n";
}

Result<std::string> Thoughts::Document(const Model& model, std::span<const uint32_t> tokens) const {
  if (close_.id) {
    const auto end = std::ranges::find(tokens, *close_.id);
    const size_t skip = end == tokens.end() ? 0 : end - tokens.begin() + 1;
    return model.Tokenizer().Decode(tokens.subspan(skip), true);
  }
  std::string text = PIE_TRY_SYNC(model.Tokenizer().Decode(tokens, true));
  if (!begun_ && !text.starts_with(open_.text)) return text;
  const size_t end = text.find(close_.text);
  return end == std::string::npos ? "" : text.substr(end + close_.text.size());
}

}  // namespace inferlet::detail
