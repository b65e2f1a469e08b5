// pie:instruct: chat turns and their decoder. Reasoning and tools need templates that no model here
// has yet.
#include "host/api.h"

namespace pie::host {

using pie_bridge::Event;
using pie_bridge::EventKind;

bool ChatSystem(void* guest, uint32_t model, Str text, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutWords(out, PIE_TRY(ModelOf(process, model))->model.chat->System(View(text)));
    return {};
  });
}

bool ChatUser(void* guest, uint32_t model, Str text, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutWords(out, PIE_TRY(ModelOf(process, model))->model.chat->User(View(text)));
    return {};
  });
}

bool ChatAssistant(void* guest, uint32_t model, Str text, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutWords(out, PIE_TRY(ModelOf(process, model))->model.chat->Assistant(View(text)));
    return {};
  });
}

bool ChatCue(void* guest, uint32_t model, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutWords(out, PIE_TRY(ModelOf(process, model))->model.chat->Cue());
    return {};
  });
}

bool ChatSeal(void* guest, uint32_t model, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutWords(out, PIE_TRY(ModelOf(process, model))->model.chat->Seal());
    return {};
  });
}

bool ChatStopTokens(void* guest, uint32_t model, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutWords(out, PIE_TRY(ModelOf(process, model))->model.chat->stop_tokens());
    return {};
  });
}

bool DecoderNew(void* guest, HandleKind kind, uint32_t model, uint32_t* decoder, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    LoadedModel* loaded = PIE_TRY(ModelOf(process, model));
    if (kind != HandleKind::ChatDecoder) {
      return Fail(Code::kUnavailable, "model '{}' has no {} format in its template",
                  loaded->model.name, kind == HandleKind::ToolDecoder ? "tool call" : "reasoning");
    }
    *decoder = PIE_TRY(process.handles().chat_decoders.Emplace(loaded->model));
    return {};
  });
}

bool DecoderFeed(void* guest, HandleKind, uint32_t decoder, Words tokens, Event* event, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    auto seen = PIE_TRY(PIE_TRY(process.handles().chat_decoders.Get(decoder))->Feed(View(tokens)));
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
  });
}

bool DecoderReset(void* guest, HandleKind, uint32_t decoder, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_TRY(process.handles().chat_decoders.Get(decoder))->Reset();
    return {};
  });
}

bool ToolsEquip(void* guest, uint32_t model, const Str*, size_t, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    LoadedModel* loaded = PIE_TRY(ModelOf(process, model));
    return Fail(Code::kUnavailable, "model '{}' has no tool format in its template",
                loaded->model.name);
  });
}

bool ToolsAnswer(void* guest, uint32_t model, Str, Str, Out* out) {
  return ToolsEquip(guest, model, nullptr, 0, out);
}

bool ToolsFormat(void* guest, uint32_t model, const Str*, size_t, uint32_t*, bool* found,
                 Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_RETURN_IF_ERROR(ModelOf(process, model));
    *found = false;  // no native format
    return {};
  });
}

bool ToolsMatcher(void* guest, uint32_t model, const Str*, size_t, uint32_t*, Out* out) {
  return ToolsEquip(guest, model, nullptr, 0, out);
}

}  // namespace pie::host
