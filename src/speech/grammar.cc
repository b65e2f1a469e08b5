#include "speech/grammar.h"

#include <functional>

#include "abi/out.h"
#include "abi/text.h"

namespace pie {
namespace {

// The number that stands for a user in the bridge.
uint64_t OwnerOf(std::string_view user) {
  return std::hash<std::string_view>()(user);
}

}  // namespace

Grammar::Grammar(pie_bridge::Grammar* raw) : raw_(raw, pie_bridge::pie_grammar_free) {}

Result<Grammar> Grammar::Make(int kind, std::string_view source, std::string_view user) {
  abi::Out out;
  auto* raw = pie_bridge::pie_grammar_new(static_cast<pie_bridge::GrammarKind>(kind),
                                          abi::ToStr(source), OwnerOf(user), out.get());
  if (raw == nullptr) return Fail(Code::kInvalid, "grammar: {}", out.error());
  return Grammar(raw);
}

Result<Grammar> Grammar::FromJsonSchema(std::string_view schema) {
  return Make(static_cast<int>(pie_bridge::GrammarKind::JsonSchema), schema);
}

Result<Grammar> Grammar::Json() {
  return Make(static_cast<int>(pie_bridge::GrammarKind::Json), "");
}

Result<Grammar> Grammar::FromRegex(std::string_view pattern) {
  return Make(static_cast<int>(pie_bridge::GrammarKind::Regex), pattern);
}

Result<Grammar> Grammar::FromEbnf(std::string_view source, std::string_view user) {
  return Make(static_cast<int>(pie_bridge::GrammarKind::Ebnf), source, user);
}

Result<std::optional<Grammar>> Grammar::OfCalls(const ChatTemplate& chat,
                                                std::span<const std::string> tools) {
  std::vector<pie_bridge::Str> texts;
  for (const std::string& tool : tools) texts.push_back(abi::ToStr(tool));
  abi::Out out;
  auto* raw =
      pie_bridge::pie_template_call_grammar(chat.raw(), {texts.data(), texts.size()}, out.get());
  if (raw != nullptr) return Grammar(raw);
  if (std::string text = out.text(); !text.empty()) return Fail(Code::kInvalid, "{}", text);
  return std::nullopt;
}

std::string_view Grammar::source() const {
  return abi::View(pie_bridge::pie_grammar_source(raw_.get()));
}

size_t Grammar::bytes() const {
  return pie_bridge::pie_grammar_bytes(raw_.get());
}

GrammarVocabulary::GrammarVocabulary(const Model& model)
    : raw_(pie_bridge::pie_grammar_vocabulary_new(
               model.tokenizer->raw(),
               {model.chat->stop_tokens().data(), model.chat->stop_tokens().size()}),
           pie_bridge::pie_grammar_vocabulary_free) {}

Status GrammarVocabulary::Compile(const Grammar& grammar) const {
  abi::Out out;
  if (!pie_bridge::pie_grammar_compile(raw_.get(), grammar.raw(), out.get())) {
    return Fail(Code::kInvalid, "grammar: {}", out.error());
  }
  return {};
}

void Matcher::Free::operator()(pie_bridge::Matcher* raw) const {
  pie_bridge::pie_matcher_free(raw);
}

Result<Matcher> Matcher::Make(const GrammarVocabulary& vocabulary, const Grammar& grammar,
                              std::string_view user) {
  abi::Out out;
  auto* raw =
      pie_bridge::pie_matcher_new(vocabulary.raw(), grammar.raw(), OwnerOf(user), out.get());
  if (raw == nullptr) return Fail(Code::kInvalid, "grammar: {}", out.error());
  return Matcher(raw);
}

std::optional<Matcher> Matcher::OfCompiled(const GrammarVocabulary& vocabulary,
                                           const Grammar& grammar) {
  auto* raw = pie_bridge::pie_matcher_of_compiled(vocabulary.raw(), grammar.raw());
  if (raw == nullptr) return std::nullopt;
  return Matcher(raw);
}

Status Matcher::Accept(std::span<const uint32_t> tokens) {
  abi::Out out;
  if (!pie_bridge::pie_matcher_accept(raw_.get(), {tokens.data(), tokens.size()}, out.get())) {
    return Fail(Code::kInvalid, "matcher: {}", out.error());
  }
  return {};
}

Result<std::vector<uint32_t>> Matcher::MaskRuns() {
  abi::Out out;
  if (!pie_bridge::pie_matcher_mask_runs(raw_.get(), out.get())) {
    return Fail(Code::kExhausted, "matcher: {}", out.error());
  }
  return out.words();
}

Result<std::vector<uint32_t>> Matcher::MaskBits() {
  abi::Out out;
  if (!pie_bridge::pie_matcher_mask_bits(raw_.get(), out.get())) {
    return Fail(Code::kExhausted, "matcher: {}", out.error());
  }
  return out.words();
}

std::vector<uint32_t> Matcher::ForcedTokens() {
  abi::Out out;
  pie_bridge::pie_matcher_forced(raw_.get(), out.get());
  return out.words();
}

Status Matcher::Rollback(size_t tokens) {
  abi::Out out;
  if (!pie_bridge::pie_matcher_rollback(raw_.get(), tokens, out.get())) {
    return Fail(Code::kInvalid, "matcher: {}", out.error());
  }
  return {};
}

size_t Matcher::bytes() const {
  return pie_bridge::pie_matcher_bytes(raw_.get());
}

size_t Matcher::compiled_id() const {
  return pie_bridge::pie_matcher_compiled_id(raw_.get());
}

size_t Matcher::compiled_bytes() const {
  return pie_bridge::pie_matcher_compiled_bytes(raw_.get());
}

bool Matcher::is_terminated() const {
  return pie_bridge::pie_matcher_is_terminated(raw_.get());
}

void Matcher::Reset() {
  pie_bridge::pie_matcher_reset(raw_.get());
}

Result<Matcher> Matcher::Fork() const {
  abi::Out out;
  auto* raw = pie_bridge::pie_matcher_fork(raw_.get(), out.get());
  if (raw == nullptr) return Fail(Code::kInternal, "matcher: {}", out.error());
  return Matcher(raw);
}

}  // namespace pie
