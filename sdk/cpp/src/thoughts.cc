#include "thoughts.h"

#include <algorithm>

#include "inferlet/bindings.h"

namespace inferlet::detail {

std::optional<Thoughts> Thoughts::Of(const Model& model) {
  auto marks = pie::plus::thoughts::Marks(model.Inner());
  if (!marks) return std::nullopt;
  Thoughts thoughts;
  thoughts.open_ = Text(marks->open);
  thoughts.close_ = Text(marks->close);
  thoughts.close_token_ = marks->close_token;
  thoughts.begun_ = marks->begins_inside;
  thoughts.rules_ = Text(marks->rules);
  return thoughts;
}

std::string Thoughts::Grammar(std::string_view schema) const {
  return std::string("start: ") + (begun_ ? "thoughts" : "thoughts?") + " document\n" + rules_ +
         "document: %json " + std::string(schema) + "\n";
}

Result<std::string> Thoughts::Document(const Model& model, std::span<const uint32_t> tokens) const {
  const Tokenizer& tokenizer = model.Tokenizer();
  if (close_token_) {
    // No document can contain this token, but the marks around the thoughts may contain it.
    const auto marked = std::ranges::find(tokens.rbegin(), tokens.rend(), *close_token_);
    return tokenizer.Decode(tokens.subspan(tokens.rend() - marked), true);
  }
  std::string text = PIE_TRY_SYNC(tokenizer.Decode(tokens, true));
  if (!begun_ && !PIE_TRY_SYNC(tokenizer.Decode(tokens)).starts_with(open_)) return text;
  const size_t end = text.find(close_);
  return end == std::string::npos ? "" : text.substr(end + close_.size());
}

}  // namespace inferlet::detail
