#include "turns.h"

namespace inferlet::detail {

namespace host = pie::plus::turns;

namespace {

host::Turn ToRaw(const Turns::Turn& turn) {
  auto tools = wit::vector<wit::string>::allocate(turn.tools.size());
  for (size_t i = 0; i < turn.tools.size(); ++i) {
    tools.initialize(i, wit::string::from_view(turn.tools[i]));
  }
  return {turn.kind, wit::string::from_view(turn.text), wit::string::from_view(turn.name),
          std::move(tools)};
}

}  // namespace

Turns Turns::InTheMiddle() {
  Turns turns;
  turns.settled_ = {Kind::kUser, Kind::kAssistant};
  return turns;
}

Result<void> Turns::Add(const Model& model, std::vector<uint32_t>& buffer, Turn turn) {
  if (!pending_.empty() && buffer.size() != end_) Settle();
  if (pending_.empty()) start_ = buffer.size();
  std::vector<host::Turn> turns;
  turns.reserve(pending_.size() + 1);
  for (const Turn& before : pending_) turns.push_back(ToRaw(before));
  turns.push_back(ToRaw(turn));
  auto tokens = Lift(host::Extend(model.Inner(), settled_, turns), List<uint32_t>);
  if (!tokens) {  // not together, for example because they are too many: the new one by itself
    Settle();
    start_ = buffer.size();
    turns.clear();
    turns.push_back(ToRaw(turn));
    tokens = Lift(host::Extend(model.Inner(), settled_, turns), List<uint32_t>);
    if (!tokens) return Error(std::move(tokens).error());
  }
  buffer.resize(start_);
  buffer.insert(buffer.end(), tokens->begin(), tokens->end());
  pending_.push_back(std::move(turn));
  end_ = buffer.size();
  return {};
}

void Turns::Settle() {
  for (const Turn& turn : pending_) settled_.push_back(turn.kind);
  pending_.clear();
}

void Turns::Seal() {
  Settle();
  if (!settled_.empty() && settled_.back() == Kind::kCue) settled_.pop_back();
  if (settled_.empty() || settled_.back() != Kind::kAssistant) settled_.push_back(Kind::kAssistant);
}

}  // namespace inferlet::detail
