#include "speech/turn_reader.h"

#include <algorithm>

#include "speech/turn.h"

namespace pie {

Result<TurnReader> TurnReader::Make(const Model& model) {
  TurnReader reader;
  reader.tokenizer_ = model.tokenizer.get();
  reader.cue_ = PIE_TRY(model.chat->Alone(MakeTurn(TurnKind::Cue)));
  if (!model.chat->seal().empty()) reader.ends_.push_back(model.chat->seal()[0]);
  for (const uint32_t stop : model.chat->stop_tokens()) {
    if (!reader.Ends(stop)) reader.ends_.push_back(stop);
  }
  if (reader.cue_.empty() || reader.ends_.empty()) {
    return Fail(Code::kUnavailable, "the chat template of model '{}' does not show where a turn {}",
                model.name, reader.cue_.empty() ? "begins" : "ends");
  }
  return reader;
}

std::vector<TurnReader::Turn> TurnReader::Read(std::span<const uint32_t> context) const {
  std::vector<Turn> turns;
  size_t prompt = 0;  // where the prompt of the next turn begins
  for (size_t at = 0; at + cue_.size() <= context.size();) {
    if (!std::ranges::equal(context.subspan(at, cue_.size()), cue_)) {
      ++at;
      continue;
    }
    const size_t begin = at + cue_.size();
    size_t end = begin;
    while (end < context.size() && !Ends(context[end]) && !Opens(context[end])) ++end;
    const auto said = context.subspan(begin, end - begin);
    turns.push_back({.prompt = Text(context.subspan(prompt, at - prompt)),
                     .said = Text(said),
                     .tokens = {said.begin(), said.end()},
                     .ended = end < context.size()});
    at = end;
    prompt = end < context.size() && Ends(context[end]) ? end + 1 : end;
  }
  return turns;
}

std::string TurnReader::Text(std::span<const uint32_t> tokens) const {
  std::string text;
  for (const uint32_t token : tokens) text += Text(token);
  return text;
}

std::string_view TurnReader::Text(uint32_t token) const {
  const Tokenizer::Vocabulary& special = tokenizer_->special_tokens();
  const auto found = std::ranges::lower_bound(special.ids, token);
  if (found != special.ids.end() && *found == token) {
    return special.bytes[static_cast<size_t>(found - special.ids.begin())];
  }
  return token < tokenizer_->vocab_size() ? tokenizer_->Bytes(token) : std::string_view();
}

bool TurnReader::Opens(uint32_t token) const {
  return token == cue_[0] && tokenizer_->IsSpecial(token);
}

bool TurnReader::Ends(uint32_t token) const {
  return std::ranges::find(ends_, token) != ends_.end();
}

}  // namespace pie
