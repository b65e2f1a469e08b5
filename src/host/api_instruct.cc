// pie:instruct: chat turns, tools, and the decoders of what the model says; and what pie:plus adds.
#include "host/api.h"
#include "host/await.h"
#include "host/execute.h"
#include "speech/turn.h"

namespace pie::host {
namespace {

Result<const ChatTemplate*> ChatOf(Process& process, uint32_t model) {
  return PIE_TRY(ModelOf(process, model))->model.chat.get();
}

Status CheckSize(Process& process, std::span<const Turn> turns) {
  const Limits& limits = process.engine().limits();
  if (turns.size() > limits.max_turns) {
    return Fail(Code::kExhausted, "the call has {} turns; at most {} are allowed", turns.size(),
                limits.max_turns);
  }
  size_t bytes = 0;
  for (const Turn& turn : turns) {
    bytes += turn.text.len + turn.name.len;
    for (Str tool : View(turn.tools)) bytes += tool.len;
  }
  if (bytes > limits.max_turn_bytes) {
    return Fail(Code::kExhausted, "the turns have {} bytes; at most {} are allowed", bytes,
                limits.max_turn_bytes);
  }
  return {};
}

// Feeds a decoder, and charges the process for the text that the decoder keeps from then on.
template <class T>
auto Feed(Process& process, HandleTable<Charged<T>>& table, uint32_t handle,
          std::span<const uint32_t> tokens) -> decltype(std::declval<T&>().Feed(tokens)) {
  PIE_RETURN_IF_ERROR(CheckTokenCount(process, tokens));
  Charged<T>* const found = PIE_TRY(table.Get(handle));
  auto seen = PIE_TRY(found->decoder->Feed(tokens));
  if (found->charge.Resize(found->decoder->bytes())) return seen;
  found->decoder->Reset();
  found->charge.Release();
  return PassMemoryLimit(process);
}

template <class T>
Status Reset(HandleTable<Charged<T>>& table, uint32_t handle) {
  Charged<T>* const found = PIE_TRY(table.Get(handle));
  found->decoder->Reset();
  found->charge.Release();
  return {};
}

Result<const ChatTemplate::Options*> OptionsOf(Process& process, uint32_t model) {
  return &PIE_TRY(process.handles().models.Get(model))->options;
}

Result<std::vector<uint32_t>> TurnAlone(Process& process, uint32_t model, const Turn& turn) {
  PIE_RETURN_IF_ERROR(CheckSize(process, {&turn, 1}));
  return PIE_TRY(ChatOf(process, model))->Alone(turn, *PIE_TRY(OptionsOf(process, model)));
}

// Notes the tools of a process, by which its decoders tell texts from numbers.
void NoteTools(Process& process, std::span<const Str> tools) {
  for (const Str& tool : tools) process.tool_types()->Add(View(tool));
}

}  // namespace

Result<std::vector<uint32_t>> ChatSystem(Process& process, uint32_t model, std::string_view text) {
  return TurnAlone(process, model, MakeTurn(TurnKind::System, text));
}

Result<std::vector<uint32_t>> ChatUser(Process& process, uint32_t model, std::string_view text) {
  return TurnAlone(process, model, MakeTurn(TurnKind::User, text));
}

Result<std::vector<uint32_t>> ChatAssistant(Process& process, uint32_t model,
                                            std::string_view text) {
  return TurnAlone(process, model, MakeTurn(TurnKind::Assistant, text));
}

Result<std::vector<uint32_t>> ChatCue(Process& process, uint32_t model) {
  return TurnAlone(process, model, MakeTurn(TurnKind::Cue));
}

Result<std::vector<uint32_t>> ChatSeal(Process& process, uint32_t model) {
  return PIE_TRY(ChatOf(process, model))->seal();
}

Result<std::vector<uint32_t>> ChatStopTokens(Process& process, uint32_t model) {
  return PIE_TRY(ChatOf(process, model))->stop_tokens();
}

Result<uint32_t> ChatCreateDecoder(Process& process, uint32_t model) {
  return process.handles().chat_decoders.Emplace(
      std::make_unique<ChatDecoder>(PIE_TRY(ModelOf(process, model))->model), process.NewCharge());
}

Result<ChatEvent> ChatDecoderFeed(Process& process, uint32_t decoder,
                                  std::span<const uint32_t> tokens) {
  auto seen = PIE_TRY(Feed(process, process.handles().chat_decoders, decoder, tokens));
  if (auto* delta = std::get_if<ChatDecoder::Delta>(&seen)) {
    return ChatEventDelta{std::move(delta->text)};
  }
  if (auto* interrupt = std::get_if<ChatDecoder::Interrupt>(&seen)) {
    return ChatEventInterrupt{interrupt->token};
  }
  return ChatEventDone{std::move(std::get<ChatDecoder::Done>(seen).text)};
}

Status ChatDecoderReset(Process& process, uint32_t decoder) {
  return Reset(process.handles().chat_decoders, decoder);
}

Status ChatDecoderDrop(Process& process, uint32_t decoder) {
  process.handles().chat_decoders.Remove(decoder);
  return {};
}

Result<uint32_t> ReasoningCreateDecoder(Process& process, uint32_t model) {
  return process.handles().reasoning_decoders.Emplace(
      std::make_unique<ReasoningDecoder>(PIE_TRY(ModelOf(process, model))->model,
                                         PIE_TRY(OptionsOf(process, model))->begins_inside),
      process.NewCharge());
}

Result<ReasoningEvent> ReasoningDecoderFeed(Process& process, uint32_t decoder,
                                            std::span<const uint32_t> tokens) {
  auto seen = PIE_TRY(Feed(process, process.handles().reasoning_decoders, decoder, tokens));
  if (auto* delta = std::get_if<ReasoningDecoder::Delta>(&seen)) {
    return ReasoningEventDelta{std::move(delta->text)};
  }
  if (auto* complete = std::get_if<ReasoningDecoder::Complete>(&seen)) {
    return ReasoningEventComplete{std::move(complete->text)};
  }
  return ReasoningEventStart{};
}

Status ReasoningDecoderReset(Process& process, uint32_t decoder) {
  return Reset(process.handles().reasoning_decoders, decoder);
}

Status ReasoningDecoderDrop(Process& process, uint32_t decoder) {
  process.handles().reasoning_decoders.Remove(decoder);
  return {};
}

Result<std::optional<ThoughtsFormat>> ThoughtsMarks(Process& process, uint32_t model) {
  const auto& format = PIE_TRY(ChatOf(process, model))->reasoning();
  if (!format) return std::nullopt;
  const bool inside =
      PIE_TRY(OptionsOf(process, model))->begins_inside.value_or(format->begins_inside);
  return ThoughtsFormat{format->open, format->close, format->close_token, inside,
                        inside ? format->rules_inside : format->rules};
}

Result<uint32_t> ToolUseCreateDecoder(Process& process, uint32_t model) {
  const Model& of = PIE_TRY(ModelOf(process, model))->model;
  return process.handles().tool_decoders.Emplace(
      PIE_TRY(ToolDecoder::Make(of, process.tool_types())), process.NewCharge());
}

Result<ToolUseEvent> ToolUseDecoderFeed(Process& process, uint32_t decoder,
                                        std::span<const uint32_t> tokens) {
  auto call = PIE_TRY(Feed(process, process.handles().tool_decoders, decoder, tokens));
  if (!call) return ToolUseEventStart{};  // in the contract, this event means "no call yet"
  return ToolUseEventCall{{std::move(call->name), std::move(call->arguments)}};
}

Status ToolUseDecoderReset(Process& process, uint32_t decoder) {
  return Reset(process.handles().tool_decoders, decoder);
}

Status ToolUseDecoderDrop(Process& process, uint32_t decoder) {
  process.handles().tool_decoders.Remove(decoder);
  return {};
}

Result<bool> CallsAssembling(Process& process, uint32_t decoder) {
  return PIE_TRY(process.handles().tool_decoders.Get(decoder))->decoder->is_assembling();
}

Result<std::vector<uint32_t>> TurnsExtend(Process& process, uint32_t model,
                                          std::span<const TurnKind> before,
                                          std::span<const Turn> turns) {
  PIE_RETURN_IF_ERROR(CheckSize(process, turns));
  if (const size_t most = process.engine().limits().max_turns; before.size() > most) {
    return Fail(Code::kExhausted, "{} turns come before; at most {} are allowed", before.size(),
                most);
  }
  for (const Turn& turn : turns) {
    if (turn.kind == TurnKind::Tools) NoteTools(process, View(turn.tools));
  }
  return PIE_TRY(ChatOf(process, model))
      ->Extend(before, turns, *PIE_TRY(OptionsOf(process, model)));
}

Status TemplatesSetOption(Process& process, uint32_t model, std::string_view name,
                          std::optional<std::string_view> value) {
  const ChatTemplate* chat = PIE_TRY(ChatOf(process, model));
  ModelHandle* const handle = PIE_TRY(process.handles().models.Get(model));
  auto options = PIE_TRY(chat->SetOption(handle->options, name, value));
  if (!handle->charge.Resize(options.json.size())) return PassMemoryLimit(process);
  handle->options = std::move(options);
  return {};
}

Result<std::vector<uint32_t>> ToolUseEquip(Process& process, uint32_t model,
                                           std::span<const Str> tools) {
  const Turn turn = MakeToolsTurn(tools);
  PIE_RETURN_IF_ERROR(CheckSize(process, {&turn, 1}));
  NoteTools(process, tools);
  return TurnAlone(process, model, turn);
}

Result<std::vector<uint32_t>> ToolUseAnswer(Process& process, uint32_t model, std::string_view name,
                                            std::string_view value) {
  return TurnAlone(process, model, MakeTurn(TurnKind::Answer, value, name));
}

namespace {

// Copies the schemas of tools, so that another thread can use them.
Result<std::vector<std::string>> TextsOf(Process& process, std::span<const Str> tools) {
  const size_t limit = process.engine().limits().max_turn_bytes;
  size_t bytes = 0;
  std::vector<std::string> texts;
  for (const Str& tool : tools) {
    bytes += tool.len;
    if (bytes > limit) {
      return Fail(Code::kExhausted,
                  "the tools' schemas have more than {} bytes, which is the limit", limit);
    }
    texts.emplace_back(View(tool));
  }
  return texts;
}

// Runs `work` on another thread, because schemas may be long and compiling takes time.
template <class T, class Work>
Result<std::optional<T>> AwaitWork(Process& process, std::span<const Str> tools, Wait& wait,
                                   Work work) {
  return Await<T>(process, wait, [&]() -> Result<std::shared_ptr<Pending<T>>> {
    auto texts = PIE_TRY(TextsOf(process, tools));
    Charge charge = process.NewCharge();  // for the copies, until they are used
    size_t bytes = texts.size() * sizeof(std::string);
    for (const std::string& text : texts) bytes += text.size();
    if (!charge.Grow(bytes)) return PassMemoryLimit(process);
    NoteTools(process, tools);
    return RunGrammarWork<T>(process, [work = std::move(work), texts = std::move(texts),
                                       charge = std::move(charge)] { return work(texts); });
  });
}

}  // namespace

Result<std::optional<uint32_t>> ToolUseFormat(Process& process, uint32_t model,
                                              std::span<const Str> tools, Wait& wait) {
  const LoadedModel* loaded = PIE_TRY(ModelOf(process, model));
  auto made = PIE_TRY(AwaitWork<std::optional<Grammar>>(
      process, tools, wait, [chat = loaded->model.chat.get()](std::span<const std::string> texts) {
        return Grammar::OfCalls(*chat, texts);
      }));
  if (!made || !*made) return std::nullopt;
  return PIE_TRY(InsertGrammar(process, **std::move(made)));
}

Result<uint32_t> ToolUseCreateMatcher(Process& process, uint32_t model, std::span<const Str> tools,
                                      Wait& wait) {
  const LoadedModel* loaded = PIE_TRY(ModelOf(process, model));
  auto made = PIE_TRY(AwaitWork<std::optional<Matcher>>(
      process, tools, wait,
      [chat = loaded->model.chat.get(), vocabulary = *loaded->vocabulary,
       user = process.user()->name](
          std::span<const std::string> texts) -> Result<std::optional<Matcher>> {
        const auto grammar = PIE_TRY(Grammar::OfCalls(*chat, texts));
        if (!grammar) return std::nullopt;
        return PIE_TRY(Matcher::Make(vocabulary, *grammar, user));
      }));
  if (!made) return 0;
  if (!*made) {
    return Fail(Code::kUnavailable,
                "model '{}' has no form of tool calls that a grammar can hold it to, or no tools "
                "are given",
                loaded->model.name);
  }
  return InsertMatcher(process, **std::move(made), "the grammar of the tools' calls");
}

}  // namespace pie::host
