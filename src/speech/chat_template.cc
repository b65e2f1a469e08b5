#include "speech/chat_template.h"

#include <nlohmann/json.hpp>

#include "pie_bridge.h"
#include "speech/chat_source.h"
#include "speech/model.h"

namespace pie {
namespace {

pie_bridge::Str Borrow(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// What the bridge answers with.
class Answer {
 public:
  Answer() : out_(pie_bridge::pie_out_new()) {}
  ~Answer() { pie_bridge::pie_out_free(out_); }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  pie_bridge::Out* get() { return out_; }
  std::string text() const {
    const pie_bridge::Str text = pie_bridge::pie_out_read(out_);
    return {reinterpret_cast<const char*>(text.ptr), text.len};
  }
  ChatTemplate::Tokens words() const {
    const pie_bridge::Words words = pie_bridge::pie_out_read_words(out_);
    return {words.ptr, words.ptr + words.len};
  }

 private:
  pie_bridge::Out* out_;
};

bool Encode(const void* tokenizer, pie_bridge::Str text, bool plain, pie_bridge::Out* out) {
  const auto& self = *static_cast<const Tokenizer*>(tokenizer);
  const std::string_view view(reinterpret_cast<const char*>(text.ptr), text.len);
  const auto tokens = plain ? self.EncodePlain(view) : self.Encode(view);
  if (!tokens) {
    pie_bridge::pie_out_text(out, Borrow(tokens.error().text));
    return false;
  }
  std::ranges::copy(*tokens, pie_bridge::pie_out_words(out, tokens->size()));
  return true;
}

pie_bridge::TurnKind ToBridge(TurnKind kind) {
  switch (kind) {
    case TurnKind::kSystem:
      return pie_bridge::TurnKind::System;
    case TurnKind::kUser:
      return pie_bridge::TurnKind::User;
    case TurnKind::kAssistant:
      return pie_bridge::TurnKind::Assistant;
    case TurnKind::kTools:
      return pie_bridge::TurnKind::Tools;
    case TurnKind::kAnswer:
      return pie_bridge::TurnKind::Answer;
    case TurnKind::kCue:
      break;
  }
  return pie_bridge::TurnKind::Cue;
}

// Turns as the bridge takes them; borrows from the original.
class FlatTurns {
 public:
  explicit FlatTurns(std::span<const Turn> turns) {
    tools_.reserve(turns.size());  // what is inside must not move
    for (const Turn& turn : turns) {
      auto& tools = tools_.emplace_back();
      for (std::string_view tool : turn.tools) tools.push_back(Borrow(tool));
      flat_.push_back(
          {ToBridge(turn.kind), Borrow(turn.text), Borrow(turn.name), tools.data(), tools.size()});
    }
  }
  const pie_bridge::TemplateTurn* data() const { return flat_.data(); }
  size_t size() const { return flat_.size(); }

 private:
  std::vector<std::vector<pie_bridge::Str>> tools_;
  std::vector<pie_bridge::TemplateTurn> flat_;
};

std::optional<ReasoningFormat> ToReasoning(const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  return ReasoningFormat{json.at("open"), json.at("close"), json.at("begins_inside")};
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

class ChatTemplate::Raw {
 public:
  explicit Raw(pie_bridge::Template* raw) : raw_(raw) {}
  ~Raw() { pie_bridge::pie_template_free(raw_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  const pie_bridge::Template* get() const { return raw_; }

 private:
  pie_bridge::Template* raw_;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Raw> raw) : raw_(std::move(raw)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::Make(const ChatSource& source,
                                                         const Tokenizer& tokenizer,
                                                         Options options) {
  const auto& special = tokenizer.special_tokens();
  std::vector<pie_bridge::Str> names;
  for (const std::string& name : special.bytes) names.push_back(Borrow(name));
  nlohmann::json variables = nlohmann::json::object();
  for (const auto& [name, value] : source.special_tokens) variables[name] = value;
  const std::string variables_text =
      variables.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);

  const pie_bridge::TemplateSetup setup{
      .source = Borrow(source.text),
      .has_source = !source.text.empty(),
      .special_names = names.data(),
      .special_ids = {special.ids.data(), special.ids.size()},
      .variables = Borrow(variables_text),
      .stops = {source.stop_ids.data(), source.stop_ids.size()},
      .now = options.now,
      .encoder = {.tokenizer = &tokenizer, .is_plain = options.plain_text, .encode = Encode},
  };
  Answer answer;
  auto* raw = pie_bridge::pie_template_new(&setup, answer.get());
  if (raw == nullptr) return Fail(Code::kInvalid, "{}", answer.text());

  std::unique_ptr<ChatTemplate> made(new ChatTemplate(std::make_unique<Raw>(raw)));
  pie_bridge::pie_template_seal(raw, answer.get());
  made->seal_ = answer.words();
  pie_bridge::pie_template_stops(raw, answer.get());
  made->stop_tokens_ = answer.words();
  pie_bridge::pie_template_formats(raw, answer.get());
  const nlohmann::json formats = nlohmann::json::parse(answer.text());
  made->reasoning_ = ToReasoning(formats.at("reasoning"));
  made->calls_ = ToCalls(formats.at("calls"));
  return made;
}

Result<ChatTemplate::Tokens> ChatTemplate::Extend(std::span<const TurnKind> before,
                                                  std::span<const Turn> turns) const {
  std::vector<pie_bridge::TurnKind> kinds;
  kinds.reserve(before.size());
  for (TurnKind kind : before) kinds.push_back(ToBridge(kind));
  const FlatTurns flat(turns);
  Answer answer;
  if (!pie_bridge::pie_template_extend(raw_->get(), kinds.data(), kinds.size(), flat.data(),
                                       flat.size(), answer.get())) {
    return Fail(Code::kInvalid, "{}", answer.text());
  }
  return answer.words();
}

Result<ChatTemplate::Tokens> ChatTemplate::Alone(const Turn& turn) const {
  const FlatTurns flat({&turn, 1});
  Answer answer;
  if (!pie_bridge::pie_template_alone(raw_->get(), flat.data(), answer.get())) {
    return Fail(Code::kInvalid, "{}", answer.text());
  }
  return answer.words();
}

Result<std::string> ChatTemplate::Render(std::string_view conversation) const {
  Answer answer;
  if (!pie_bridge::pie_template_render(raw_->get(), Borrow(conversation), answer.get())) {
    return Fail(Code::kInvalid, "{}", answer.text());
  }
  return answer.text();
}

Result<std::unique_ptr<ChatTemplate>> MakeChatTemplate(const ChatSource& source,
                                                       const Tokenizer& tokenizer) {
  return ChatTemplate::Make(source, tokenizer, {});
}

}  // namespace pie
