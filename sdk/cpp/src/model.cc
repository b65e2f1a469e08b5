#include "inferlet/model.h"

#include <algorithm>
#include <iterator>
#include <optional>

namespace inferlet {

using detail::Lift;
using detail::LiftText;
using detail::List;
using detail::Text;

namespace {

Vocabulary ToVocabulary(
    const std::tuple<wit::vector<uint32_t>, wit::vector<wit::vector<uint8_t>>>& raw) {
  const auto& [ids, bytes] = raw;
  Vocabulary vocabulary{.ids = List(ids), .bytes = {}};
  vocabulary.bytes.reserve(bytes.size());
  for (const wit::vector<uint8_t>& token : bytes.get_view()) {
    vocabulary.bytes.emplace_back(token.data(), token.data() + token.size());
  }
  return vocabulary;
}

}  // namespace

Tokenizer::Tokenizer(raw::Tokenizer raw) : raw_(std::make_shared<raw::Tokenizer>(std::move(raw))) {}
std::vector<uint32_t> Tokenizer::Encode(std::string_view text) const {
  return List(raw_->Encode(text));
}
Result<std::vector<uint32_t>> Tokenizer::TryEncode(std::string_view text) const {
  return Lift(pie::plus::fallible::Encode(*raw_, text), List<uint32_t>);
}
Result<std::string> Tokenizer::Decode(std::span<const uint32_t> tokens,
                                      bool skip_special_tokens) const {
  if (!skip_special_tokens) return LiftText(raw_->Decode(tokens));
  const auto special = raw_->SpecialTokens();
  const auto ids = std::get<0>(special).get_view();
  std::vector<uint32_t> kept;
  std::ranges::copy_if(tokens, std::back_inserter(kept),
                       [&](uint32_t token) { return !std::ranges::contains(ids, token); });
  return LiftText(raw_->Decode(kept));
}
Vocabulary Tokenizer::Vocabs() const {
  return ToVocabulary(raw_->Vocabs());
}
Vocabulary Tokenizer::SpecialTokens() const {
  return ToVocabulary(raw_->SpecialTokens());
}
std::string Tokenizer::SplitRegex() const {
  return Text(raw_->SplitRegex());
}

Result<Model> Model::Load(std::string_view name) {
  return Lift(raw::Model::Load(name),
              [](raw::Model model) { return Model(std::make_shared<State>(std::move(model))); });
}
Result<void> Model::TemplateOption(std::string_view name, const Json& value) const {
  const std::string text = value.Dump();
  std::optional<std::string_view> given;
  if (!value.IsNull()) given = text;
  return Lift(pie::plus::templates::SetOption(Inner(), name, given));
}

}  // namespace inferlet
