// Tools in the model's native format.
#pragma once

#include <cstdint>
#include <expected>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/constrain.h"
#include "inferlet/json.h"
#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet::tools {

// Returns the tokens that tell the model which tools (JSON schemas) it has.
Result<std::vector<uint32_t>> EquipPrefix(const Model& model, std::span<const std::string> schemas);
inline Result<std::vector<uint32_t>> EquipPrefix(const Model& model,
                                                 std::initializer_list<std::string> schemas) {
  return EquipPrefix(model, std::span(schemas.begin(), schemas.size()));
}
// Returns the tokens that give a tool's result back to the model.
std::vector<uint32_t> AnswerPrefix(const Model& model, std::string_view name,
                                   std::string_view result_json);
inline std::vector<uint32_t> AnswerPrefix(const Model& model, std::string_view name,
                                          const Json& result) {
  return AnswerPrefix(model, name, std::string_view(result.Text()));
}
inline std::vector<uint32_t> AnswerPrefix(const Model& model, std::string_view name,
                                          const char* result_json) {
  return AnswerPrefix(model, name, std::string_view(result_json));
}
// Returns the texts of schemas, for the functions here and for Context::EquipTools.
inline std::vector<std::string> Texts(std::span<const Json> schemas) {
  std::vector<std::string> texts;
  for (const Json& schema : schemas) texts.push_back(schema.Text());
  return texts;
}
inline std::vector<std::string> Texts(std::initializer_list<Json> schemas) {
  return Texts(std::span(schemas.begin(), schemas.size()));
}

struct Idle {};   // no call has begun
struct Start {};  // a call is being assembled
// A complete call: one that Feed returns, or one of an earlier turn (see Context::AssistantCalls).
struct Call {
  // The name of the tool.
  std::string name;
  // The arguments, as the text of a JSON object. An empty text stands for no arguments.
  std::string arguments{};
  // Tells several calls apart. It may be empty; Feed leaves it empty.
  std::string id{};
};
// The result of Decoder::Feed.
using Event = std::variant<Idle, Start, Call>;

// Finds tool calls. If a batch completes several calls, each following Feed, also with an empty
// batch, returns the next one. If the model's format of tool calls is unknown, Feed fails.
class Decoder {
 public:
  // Makes a decoder at the beginning of a turn.
  explicit Decoder(const Model& model);
  // Decodes the next tokens and returns what they changed.
  Result<Event> Feed(std::span<const uint32_t> tokens);
  Result<Event> Feed(std::initializer_list<uint32_t> tokens) {
    return Feed(std::span(tokens.begin(), tokens.size()));
  }
  void Reset();  // forgets the turn; call it before another turn

 private:
  std::expected<pie::instruct::tool_use::Decoder, wit::string> raw_;
};

// Returns the first call in a finished text, if there is one.
std::optional<Call> ParseCall(const Model& model, std::string_view text);
// Returns a grammar of the native call format, or none if the model has no such format. A wrong
// schema ends the run.
std::optional<Grammar> NativeGrammar(const Model& model, std::span<const std::string> schemas);
inline std::optional<Grammar> NativeGrammar(const Model& model,
                                            std::initializer_list<std::string> schemas) {
  return NativeGrammar(model, std::span(schemas.begin(), schemas.size()));
}
// Does the same. Fails if a schema is wrong.
Result<std::optional<Grammar>> TryNativeGrammar(const Model& model,
                                                std::span<const std::string> schemas);
inline Result<std::optional<Grammar>> TryNativeGrammar(const Model& model,
                                                       std::initializer_list<std::string> schemas) {
  return TryNativeGrammar(model, std::span(schemas.begin(), schemas.size()));
}
// Returns a matcher of the native call format, for GrammarConstraint, or none if the model has no
// such format. A wrong schema ends the run.
std::optional<Matcher> NativeMatcher(const Model& model, std::span<const std::string> schemas);
inline std::optional<Matcher> NativeMatcher(const Model& model,
                                            std::initializer_list<std::string> schemas) {
  return NativeMatcher(model, std::span(schemas.begin(), schemas.size()));
}
// Does the same. Fails if a schema is wrong.
Result<std::optional<Matcher>> TryNativeMatcher(const Model& model,
                                                std::span<const std::string> schemas);
inline Result<std::optional<Matcher>> TryNativeMatcher(const Model& model,
                                                       std::initializer_list<std::string> schemas) {
  return TryNativeMatcher(model, std::span(schemas.begin(), schemas.size()));
}

}  // namespace inferlet::tools
