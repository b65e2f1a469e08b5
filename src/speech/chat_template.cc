#include "speech/chat_template.h"

#include <nlohmann/json.hpp>

#include "abi/out.h"
#include "abi/text.h"
#include "pie_bridge.h"
#include "speech/chat_source.h"
#include "speech/tokenizer.h"

namespace pie {
namespace {

std::optional<ReasoningFormat> ToReasoning(const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  ReasoningFormat reasoning;
  reasoning.open = json.at("open");
  reasoning.close = json.at("close");
  if (const auto& token = json.at("close_token"); token.is_number()) reasoning.close_token = token;
  reasoning.begins_inside = json.at("begins_inside");
  reasoning.rules = json.at("rules");
  reasoning.rules_inside = json.at("rules_inside");
  return reasoning;
}

std::optional<CallFormat> ToCalls(const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  using Form = CallFormat::Form;
  const std::string form = json.at("form");
  CallFormat calls;
  calls.form = form == "object"   ? Form::kObject
               : form == "named"  ? Form::kNamed
               : form == "tagged" ? Form::kTagged
                                  : Form::kPython;
  calls.open = json.at("open");
  calls.close = json.at("close");
  calls.name_key = json.value("name_key", "");
  calls.arguments_key = json.value("arguments_key", "");
  calls.first = json.value("first", "");
  calls.middle = json.value("middle", "");
  calls.last = json.value("last", "");
  return calls;
}

}  // namespace

ChatTemplate::ChatTemplate(pie_bridge::Template* raw) : raw_(raw) {
  abi::Out out;
  pie_bridge::pie_template_seal(raw_, out.get());
  seal_ = out.words();
  pie_bridge::pie_template_stops(raw_, out.get());
  stop_tokens_ = out.words();
  pie_bridge::pie_template_formats(raw_, out.get());
  const nlohmann::json formats = nlohmann::json::parse(out.text());
  reasoning_ = ToReasoning(formats.at("reasoning"));
  calls_ = ToCalls(formats.at("calls"));
}

ChatTemplate::~ChatTemplate() {
  pie_bridge::pie_template_free(raw_);
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::Make(const ChatSource& source,
                                                         const Tokenizer& tokenizer, int64_t now) {
  nlohmann::json variables = nlohmann::json::object();
  for (const auto& [name, value] : source.special_tokens) variables[name] = value;
  const std::string variables_text =
      variables.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const pie_bridge::TemplateSetup setup{
      .source = abi::ToStr(source.text),
      .tokenizer = tokenizer.raw(),
      .variables = abi::ToStr(variables_text),
      .stops = {source.stop_ids.data(), source.stop_ids.size()},
      .now = now,
  };
  abi::Out out;
  auto* raw = pie_bridge::pie_template_new(&setup, out.get());
  if (raw == nullptr) return Fail(Code::kInvalid, "{}", out.error());
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(raw));
}

Result<ChatTemplate::Options> ChatTemplate::SetOption(const Options& options, std::string_view name,
                                                      std::optional<std::string_view> value) const {
  const pie_bridge::Str given = abi::ToStr(value.value_or(""));
  abi::Out out;
  if (!pie_bridge::pie_template_set_option(raw_, abi::ToStr(options.json), abi::ToStr(name),
                                           value ? &given : nullptr, out.get())) {
    return Fail(Code::kInvalid, "{}", out.error());
  }
  return Options{.json = out.text(), .begins_inside = out.words().at(0) != 0};
}

Result<ChatTemplate::Tokens> ChatTemplate::Extend(std::span<const TurnKind> before,
                                                  std::span<const Turn> turns,
                                                  const Options& options) const {
  abi::Out out;
  if (!pie_bridge::pie_template_extend(raw_, {before.data(), before.size()},
                                       {turns.data(), turns.size()}, abi::ToStr(options.json),
                                       out.get())) {
    return Fail(Code::kInvalid, "{}", out.error());
  }
  return out.words();
}

Result<ChatTemplate::Tokens> ChatTemplate::Alone(const Turn& turn, const Options& options) const {
  abi::Out out;
  if (!pie_bridge::pie_template_alone(raw_, &turn, abi::ToStr(options.json), out.get())) {
    return Fail(Code::kInvalid, "{}", out.error());
  }
  return out.words();
}

Result<std::string> ChatTemplate::Render(std::string_view conversation) const {
  abi::Out out;
  if (!pie_bridge::pie_template_render(raw_, abi::ToStr(conversation), out.get())) {
    return Fail(Code::kInvalid, "{}", out.error());
  }
  return out.text();
}

}  // namespace pie
