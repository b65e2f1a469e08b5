// pie:instruct: chat turns, tools, and the decoders of what the model says; and what pie:plus adds.
#include "host/api.h"

namespace pie::host {

using pie_bridge::Event;
using pie_bridge::EventKind;

namespace {

Result<const ChatTemplate*> ChatOf(Process& process, uint32_t model) {
  return PIE_TRY(ModelOf(process, model))->model.chat.get();
}

Status CheckSize(Process& process, std::span<const Turn> turns) {
  const Limits& limits = process.engine().limits();
  if (turns.size() > limits.max_turns) {
    return Fail(Code::kExhausted, "{} turns in one call; {} is the limit", turns.size(),
                limits.max_turns);
  }
  size_t bytes = 0;
  for (const Turn& turn : turns) {
    bytes += turn.text.size() + turn.name.size();
    for (std::string_view tool : turn.tools) bytes += tool.size();
  }
  if (bytes > limits.max_turn_bytes) {
    return Fail(Code::kExhausted, "turns of {} bytes; {} is the limit", bytes,
                limits.max_turn_bytes);
  }
  return {};
}

bool AnswerTurn(void* guest, uint32_t model, const Turn& turn, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_RETURN_IF_ERROR(CheckSize(process, {&turn, 1}));
    PutWords(out, PIE_TRY(PIE_TRY(ChatOf(process, model))->Alone(turn)));
    return {};
  });
}

TurnKind FromBridge(pie_bridge::TurnKind kind) {
  switch (kind) {
    case pie_bridge::TurnKind::System:
      return TurnKind::kSystem;
    case pie_bridge::TurnKind::User:
      return TurnKind::kUser;
    case pie_bridge::TurnKind::Assistant:
      return TurnKind::kAssistant;
    case pie_bridge::TurnKind::Tools:
      return TurnKind::kTools;
    case pie_bridge::TurnKind::Answer:
      return TurnKind::kAnswer;
    case pie_bridge::TurnKind::Cue:
      break;
  }
  return TurnKind::kCue;
}

Status FeedChat(ChatDecoder& decoder, Words tokens, Event* event, Out* out) {
  auto seen = PIE_TRY(decoder.Feed(View(tokens)));
  if (auto* delta = std::get_if<ChatDecoder::Delta>(&seen)) {
    event->kind = EventKind::Delta;
    PutText(out, delta->text);
  } else if (auto* interrupt = std::get_if<ChatDecoder::Interrupt>(&seen)) {
    event->kind = EventKind::Interrupt;
    event->token = interrupt->token;
  } else {
    event->kind = EventKind::Done;
    PutText(out, std::get<ChatDecoder::Done>(seen).text);
  }
  return {};
}

Status FeedReasoning(ReasoningDecoder& decoder, Words tokens, Event* event, Out* out) {
  auto seen = PIE_TRY(decoder.Feed(View(tokens)));
  if (auto* delta = std::get_if<ReasoningDecoder::Delta>(&seen)) {
    event->kind = EventKind::Delta;
    PutText(out, delta->text);
  } else if (auto* complete = std::get_if<ReasoningDecoder::Complete>(&seen)) {
    event->kind = EventKind::Done;
    PutText(out, complete->text);
  } else {
    event->kind = EventKind::Start;
  }
  return {};
}

Status FeedTools(ToolDecoder& decoder, Words tokens, Event* event, Out* out) {
  const auto call = PIE_TRY(decoder.Feed(View(tokens)));
  event->kind = EventKind::Start;  // the contract has no other word for "no call yet"
  if (call) {
    event->kind = EventKind::Call;
    PutBlob(out, call->name);
    PutBlob(out, call->arguments);
  }
  return {};
}

}  // namespace

bool ChatSystem(void* guest, uint32_t model, Str text, Out* out) {
  return AnswerTurn(guest, model, {.kind = TurnKind::kSystem, .text = View(text)}, out);
}

bool ChatUser(void* guest, uint32_t model, Str text, Out* out) {
  return AnswerTurn(guest, model, {.kind = TurnKind::kUser, .text = View(text)}, out);
}

bool ChatAssistant(void* guest, uint32_t model, Str text, Out* out) {
  return AnswerTurn(guest, model, {.kind = TurnKind::kAssistant, .text = View(text)}, out);
}

bool ChatCue(void* guest, uint32_t model, Out* out) {
  return AnswerTurn(guest, model, {.kind = TurnKind::kCue}, out);
}

bool ChatSeal(void* guest, uint32_t model, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutWords(out, PIE_TRY(ChatOf(process, model))->seal());
    return {};
  });
}

bool ChatStopTokens(void* guest, uint32_t model, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutWords(out, PIE_TRY(ChatOf(process, model))->stop_tokens());
    return {};
  });
}

bool DecoderNew(void* guest, HandleKind kind, uint32_t model, uint32_t* decoder, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    const Model& of = PIE_TRY(ModelOf(process, model))->model;
    Process::Handles& handles = process.handles();
    if (kind == HandleKind::ReasoningDecoder) {
      *decoder = PIE_TRY(handles.reasoning_decoders.Emplace(of));
    } else if (kind == HandleKind::ToolDecoder) {
      *decoder = PIE_TRY(handles.tool_decoders.Insert(PIE_TRY(ToolDecoder::Make(of))));
    } else {
      *decoder = PIE_TRY(handles.chat_decoders.Emplace(of));
    }
    return {};
  });
}

bool DecoderFeed(void* guest, HandleKind kind, uint32_t decoder, Words tokens, Event* event,
                 Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Process::Handles& handles = process.handles();
    if (kind == HandleKind::ReasoningDecoder) {
      return FeedReasoning(*PIE_TRY(handles.reasoning_decoders.Get(decoder)), tokens, event, out);
    }
    if (kind == HandleKind::ToolDecoder) {
      return FeedTools(*PIE_TRY(handles.tool_decoders.Get(decoder)), tokens, event, out);
    }
    return FeedChat(*PIE_TRY(handles.chat_decoders.Get(decoder)), tokens, event, out);
  });
}

bool DecoderReset(void* guest, HandleKind kind, uint32_t decoder, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Process::Handles& handles = process.handles();
    if (kind == HandleKind::ReasoningDecoder) {
      PIE_TRY(handles.reasoning_decoders.Get(decoder))->Reset();
    } else if (kind == HandleKind::ToolDecoder) {
      PIE_TRY(handles.tool_decoders.Get(decoder))->Reset();
    } else {
      PIE_TRY(handles.chat_decoders.Get(decoder))->Reset();
    }
    return {};
  });
}

bool DecoderAssembling(void* guest, uint32_t decoder, bool* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    *value = PIE_TRY(process.handles().tool_decoders.Get(decoder))->is_assembling();
    return {};
  });
}

bool ChatExtend(void* guest, uint32_t model, const pie_bridge::TurnKind* before,
                size_t before_count, const pie_bridge::TemplateTurn* turns, size_t turns_count,
                Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    std::vector<TurnKind> kinds;
    for (size_t i = 0; i < before_count; ++i) kinds.push_back(FromBridge(before[i]));
    std::vector<Turn> list;
    for (size_t i = 0; i < turns_count; ++i) {
      const pie_bridge::TemplateTurn& turn = turns[i];
      list.push_back({FromBridge(turn.kind), View(turn.text), View(turn.name), {}});
      for (size_t j = 0; j < turn.tools_count; ++j)
        list.back().tools.push_back(View(turn.tools[j]));
    }
    PIE_RETURN_IF_ERROR(CheckSize(process, list));
    PutWords(out, PIE_TRY(PIE_TRY(ChatOf(process, model))->Extend(kinds, list)));
    return {};
  });
}

bool ToolsEquip(void* guest, uint32_t model, const Str* tools, size_t count, Out* out) {
  Turn turn{.kind = TurnKind::kTools};
  for (size_t i = 0; i < count; ++i) turn.tools.push_back(View(tools[i]));
  return AnswerTurn(guest, model, turn, out);
}

bool ToolsAnswer(void* guest, uint32_t model, Str name, Str value, Out* out) {
  const Turn turn{.kind = TurnKind::kAnswer, .text = View(value), .name = View(name)};
  return AnswerTurn(guest, model, turn, out);
}

bool ToolsFormat(void* guest, uint32_t model, const Str*, size_t, uint32_t*, bool* found,
                 Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_RETURN_IF_ERROR(ModelOf(process, model));
    *found = false;  // no grammars here
    return {};
  });
}

bool ToolsMatcher(void* guest, uint32_t model, const Str*, size_t, uint32_t*, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    LoadedModel* loaded = PIE_TRY(ModelOf(process, model));
    return Fail(Code::kUnavailable,
                "no grammar can hold model '{}' to its tool format; ask for "
                "the format first",
                loaded->model.name);
  });
}

}  // namespace pie::host
