#include "speech/script.h"

#include <algorithm>
#include <utility>

namespace pie {
namespace {

constexpr size_t kMostUnanswered = 8;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

Status Script::Use(const Model& model) {
  std::lock_guard lock(mutex_);
  turns_ = PIE_TRY(TurnReader::Make(model));
  tokenizer_ = model.tokenizer.get();
  return Encode();
}

Status Script::Replace(std::vector<ScriptedAnswer> answers) {
  std::lock_guard lock(mutex_);
  answers_ = std::move(answers);
  return Encode();
}

Status Script::Encode() {
  alternatives_.clear();
  unanswered_.clear();
  given_.assign(answers_.size(), false);
  for (const ScriptedAnswer& answer : answers_) {
    std::vector<Alternative>& alternatives = alternatives_.emplace_back();
    for (size_t i = 0; i < answer.say.size(); ++i) {
      Alternative alternative{.tokens = PIE_TRY(tokenizer_->Encode(answer.say[i])), .text = {}};
      alternative.text = turns_->Text(alternative.tokens);
      if (!answer.weights.empty()) alternative.weight = answer.weights[i];
      alternatives.push_back(std::move(alternative));
    }
  }
  return {};
}

std::vector<ScriptedToken> Script::Next(std::span<const uint32_t> context) {
  std::lock_guard lock(mutex_);
  std::vector<TurnReader::Turn> turns = turns_->Read(context);
  std::vector<bool> spent(answers_.size(), false);
  std::string text;
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (answers_[i].after.empty()) continue;
    if (text.empty()) text = turns_->Text(context);
    if (auto next = AfterText(i, text); !next.empty()) return next;
  }
  for (size_t t = 0; t < turns.size(); ++t) {
    const TurnReader::Turn& turn = turns[t];
    const bool is_open = t + 1 == turns.size() && !turn.ended;
    for (size_t i = 0; i < answers_.size(); ++i) {
      const ScriptedAnswer& answer = answers_[i];
      if (spent[i] || !answer.after.empty() || !Contains(turn.prompt, answer.when)) continue;
      if (is_open) {
        if (auto next = Continue(i, turn.said); !next.empty()) return next;
      } else if (WasGiven(i, turn)) {
        spent[i] = !answer.repeat;
        break;
      }
    }
    if (is_open && turn.said.empty()) NoteUnanswered(turn.prompt);
  }
  return {};
}

std::vector<ScriptedToken> Script::AfterText(size_t index, std::string_view text) {
  const ScriptedAnswer& answer = answers_[index];
  for (size_t at = text.find(answer.after); at != text.npos; at = text.find(answer.after, at + 1)) {
    if (!Contains(text.substr(0, at), answer.when)) continue;
    auto next = Continue(index, text.substr(at + answer.after.size()));
    if (!next.empty()) return next;
  }
  return {};
}

std::vector<ScriptedToken> Script::Continue(size_t index, std::string_view said) {
  std::vector<ScriptedToken> next;
  double total = 0;
  for (const Alternative& alternative : alternatives_[index]) {
    if (!alternative.text.starts_with(said)) continue;
    std::optional<uint32_t> token = NextToken(alternative, said.size());
    if (!token && answers_[index].end_turn && said.size() == alternative.text.size()) {
      token = turns_->end();
    }
    if (!token) continue;
    total += alternative.weight;
    const auto same = std::ranges::find(next, *token, &ScriptedToken::token);
    if (same != next.end()) {
      same->probability += static_cast<float>(alternative.weight);
    } else {
      next.push_back({*token, static_cast<float>(alternative.weight)});
    }
  }
  for (ScriptedToken& token : next) token.probability /= static_cast<float>(total);
  if (!next.empty()) given_[index] = true;
  return next;
}

std::optional<uint32_t> Script::NextToken(const Alternative& alternative, size_t said_bytes) const {
  size_t bytes = 0;
  for (const uint32_t token : alternative.tokens) {
    if (bytes == said_bytes) return token;
    bytes += turns_->Text(token).size();
    if (bytes <= said_bytes) continue;
    // The text so far ends inside a token of the answer, because a mask forced other tokens.
    const auto rest = tokenizer_->Encode(alternative.text.substr(said_bytes));
    return rest && !rest->empty() ? std::optional(rest->front()) : std::nullopt;
  }
  return std::nullopt;
}

bool Script::WasGiven(size_t index, const TurnReader::Turn& turn) const {
  // A limit on tokens may have ended the turn early.
  return std::ranges::any_of(alternatives_[index], [&](const Alternative& alternative) {
    return alternative.text.starts_with(turn.said) || turn.said.starts_with(alternative.text);
  });
}

void Script::NoteUnanswered(const std::string& prompt) {
  if (unanswered_.size() >= kMostUnanswered) return;
  if (std::ranges::find(unanswered_, prompt) == unanswered_.end()) unanswered_.push_back(prompt);
}

std::vector<size_t> Script::NeverGiven() const {
  std::lock_guard lock(mutex_);
  std::vector<size_t> never;
  for (size_t i = 0; i < given_.size(); ++i) {
    if (!given_[i]) never.push_back(i);
  }
  return never;
}

std::vector<std::string> Script::Unanswered() const {
  std::lock_guard lock(mutex_);
  return unanswered_;
}

}  // namespace pie
