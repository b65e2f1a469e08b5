#include "speech/turn_recorder.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace pie {
namespace {

// Returns the last participant's text, which follows the last special token and the role's name.
std::string LastWords(std::string_view prompt) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::string_view last;
  while (!prompt.empty()) {
    const size_t open = prompt.find("<|");
    const std::string_view piece = prompt.substr(0, open);
    if (piece.find_first_not_of(kSpace) != piece.npos) last = piece;
    const size_t close = open == prompt.npos ? prompt.npos : prompt.find("|>", open);
    prompt.remove_prefix(close == prompt.npos ? prompt.size() : close + 2);
  }
  for (const std::string_view role : {"system\n", "user\n", "tool\n"}) {
    if (last.starts_with(role)) last.remove_prefix(role.size());
  }
  const size_t begin = last.find_first_not_of(kSpace);
  if (begin == last.npos) return "";
  return std::string(last.substr(begin, last.find_last_not_of(kSpace) + 1 - begin));
}

}  // namespace

Status TurnRecorder::Use(const Model& model) {
  std::lock_guard lock(mutex_);
  turns_ = PIE_TRY(TurnReader::Make(model));
  return {};
}

void TurnRecorder::Observe(std::span<const uint32_t> context, uint32_t token) {
  std::lock_guard lock(mutex_);
  std::vector<TurnReader::Turn> turns = turns_->Read(context);
  if (turns.empty() || turns.back().ended) return;
  TurnReader::Turn& turn = turns.back();
  const auto before = context.first(context.size() - turn.tokens.size());
  // A token after a rejected draft continues no recorded turn, so it is found nowhere.
  auto at = std::ranges::find_if(recorded_, [&](const Recorded& known) {
    return !known.ended && known.said == turn.tokens && std::ranges::equal(known.context, before);
  });
  if (at == recorded_.end()) {
    if (!turn.tokens.empty()) return;
    recorded_.push_back({.context = {before.begin(), before.end()}, .prompt = turn.prompt});
    at = recorded_.end() - 1;
  }
  if (turns_->Ends(token)) {
    at->ended = true;
  } else {
    at->said.push_back(token);
  }
}

std::vector<ScriptedAnswer> TurnRecorder::Answers() const {
  std::lock_guard lock(mutex_);
  std::vector<ScriptedAnswer> answers;
  std::vector<const Recorded*> first;  // the first recorded turn of each answer
  for (const Recorded& turn : recorded_) {
    const std::string said = ToValidUtf8(turns_->Text(turn.said));
    const auto same =
        std::ranges::find(first, turn.context, [](const Recorded* r) { return r->context; });
    if (same != first.end()) {
      answers[static_cast<size_t>(same - first.begin())].say.push_back(said);
      continue;
    }
    answers.push_back(
        {.when = ToValidUtf8(LastWords(turn.prompt)), .say = {said}, .end_turn = turn.ended});
    first.push_back(&turn);
  }
  return answers;
}

}  // namespace pie
