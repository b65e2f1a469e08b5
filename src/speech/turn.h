// Turn: one turn of a conversation, as the contract has it (pie:plus/turns) and as it crosses the
// bridge. It borrows its texts.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pie_bridge.h"

namespace pie {

using TurnKind = pie_bridge::TurnsKind;
using Turn = pie_bridge::TurnsTurn;

// `name` is the tool's, of an answer.
inline Turn MakeTurn(TurnKind kind, std::string_view text = {}, std::string_view name = {}) {
  const auto borrow = [](std::string_view s) {
    return pie_bridge::Str{reinterpret_cast<const uint8_t*>(s.data()), s.size()};
  };
  return {.kind = kind, .text = borrow(text), .name = borrow(name), .tools = {}};
}

// `tools` are JSON schemas.
inline Turn MakeToolsTurn(std::span<const pie_bridge::Str> tools) {
  Turn turn = MakeTurn(TurnKind::Tools);
  turn.tools = {tools.data(), tools.size()};
  return turn;
}

}  // namespace pie
