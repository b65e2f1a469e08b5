// Chat, reasoning and tools: thin over the bindings.
#include "inferlet/chat.h"
#include "inferlet/reasoning.h"
#include "inferlet/tools.h"

namespace inferlet {

using detail::Lift;
using detail::List;
using detail::Text;

namespace chat {

namespace host = pie::instruct::chat;

std::vector<uint32_t> System(const Model& model, std::string_view message) {
  return List(host::System(model.Inner(), message));
}
std::vector<uint32_t> User(const Model& model, std::string_view message) {
  return List(host::User(model.Inner(), message));
}
std::vector<uint32_t> Assistant(const Model& model, std::string_view message) {
  return List(host::Assistant(model.Inner(), message));
}
std::vector<uint32_t> Cue(const Model& model) {
  return List(host::Cue(model.Inner()));
}
std::vector<uint32_t> Seal(const Model& model) {
  return List(host::Seal(model.Inner()));
}
std::vector<uint32_t> StopTokens(const Model& model) {
  return List(host::StopTokens(model.Inner()));
}

Decoder::Decoder(const Model& model) : raw_(host::CreateDecoder(model.Inner())) {}

Result<Event> Decoder::Feed(std::span<const uint32_t> tokens) {
  return Lift(raw_.Feed(tokens), [](host::Event event) -> Event {
    if (auto* delta = std::get_if<host::Event::Delta>(&event.variants)) {
      if (delta->value.empty()) return Idle{};
      return Delta{Text(delta->value)};
    }
    if (auto* done = std::get_if<host::Event::Done>(&event.variants)) {
      return Done{Text(done->value)};
    }
    return Interrupt{std::get<host::Event::Interrupt>(event.variants).value};
  });
}

void Decoder::Reset() {
  raw_.Reset();
}

}  // namespace chat

namespace reasoning {

namespace host = pie::instruct::reasoning;

Decoder::Decoder(const Model& model) : raw_(host::CreateDecoder(model.Inner())) {}

Result<Event> Decoder::Feed(std::span<const uint32_t> tokens) {
  return Lift(raw_.Feed(tokens), [](host::Event event) -> Event {
    if (auto* delta = std::get_if<host::Event::Delta>(&event.variants)) {
      if (delta->value.empty()) return Idle{};
      return Delta{Text(delta->value)};
    }
    if (auto* end = std::get_if<host::Event::Complete>(&event.variants)) {
      return End{Text(end->value)};
    }
    return Start{};
  });
}

void Decoder::Reset() {
  raw_.Reset();
}

}  // namespace reasoning

namespace tools {

namespace host = pie::instruct::tool_use;

namespace {

std::vector<std::string_view> Views(std::span<const std::string> texts) {
  return std::vector<std::string_view>(texts.begin(), texts.end());
}

}  // namespace

Result<std::vector<uint32_t>> EquipPrefix(const Model& model,
                                          std::span<const std::string> schemas) {
  return Lift(host::Equip(model.Inner(), Views(schemas)), List<uint32_t>);
}

std::vector<uint32_t> AnswerPrefix(const Model& model, std::string_view name,
                                   std::string_view result_json) {
  return List(host::Answer(model.Inner(), name, result_json));
}

Decoder::Decoder(const Model& model)
    : raw_(pie::plus::fallible::CreateToolDecoder(model.Inner())) {}

Result<Event> Decoder::Feed(std::span<const uint32_t> tokens) {
  if (!raw_) return Error(Text(raw_.error()));
  return Lift(raw_->Feed(tokens), [this](host::Event event) -> Event {
    if (auto* call = std::get_if<host::Event::Call>(&event.variants)) {
      return Call{Text(std::get<0>(call->value)), Text(std::get<1>(call->value))};
    }
    // The engine answers "start" for text without a call, too.
    if (pie::plus::calls::Assembling(*raw_)) return Start{};
    return Idle{};
  });
}

void Decoder::Reset() {
  if (raw_) raw_->Reset();
}

std::optional<Call> ParseCall(const Model& model, std::string_view text) {
  Decoder decoder(model);
  Result<Event> event = decoder.Feed(model.Tokenizer().Encode(text));
  if (!event || !std::holds_alternative<Call>(*event)) return std::nullopt;
  return std::get<Call>(*std::move(event));
}

std::optional<Grammar> NativeGrammar(const Model& model, std::span<const std::string> schemas) {
  Result<std::optional<Grammar>> grammar = TryNativeGrammar(model, schemas);
  if (grammar) return *std::move(grammar);
  host::Format(model.Inner(), Views(schemas));  // ends the run with the reason
  return std::nullopt;
}

Result<std::optional<Grammar>> TryNativeGrammar(const Model& model,
                                                std::span<const std::string> schemas) {
  auto made = pie::plus::fallible::CreateToolGrammar(model.Inner(), Views(schemas));
  if (!made) return Error(Text(made.error()));
  std::optional<raw::Grammar> grammar = *std::move(made);
  if (!grammar) return std::nullopt;
  return Grammar(*std::move(grammar));
}

std::optional<Matcher> NativeMatcher(const Model& model, std::span<const std::string> schemas) {
  Result<std::optional<Matcher>> matcher = TryNativeMatcher(model, schemas);
  // The same call of the engine, which ends the run with the reason.
  if (!matcher) return Matcher(host::CreateMatcher(model.Inner(), Views(schemas)));
  return *std::move(matcher);
}

Result<std::optional<Matcher>> TryNativeMatcher(const Model& model,
                                                std::span<const std::string> schemas) {
  auto matcher = pie::plus::fallible::CreateToolMatcher(model.Inner(), Views(schemas));
  if (matcher) return Matcher(*std::move(matcher));
  std::string error = Text(matcher.error());
  // The engine's error for a model without a native call format, and for no tools.
  if (error.contains("has no form of tool calls")) return std::nullopt;
  return Error(std::move(error));
}

}  // namespace tools
}  // namespace inferlet
