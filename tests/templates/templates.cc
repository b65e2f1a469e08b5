// pie-templates: renders chat templates and runs their decoders, for tests/templates.
//
//   pie-templates FILE < requests.jsonl      FILE: a .gguf, or a tokenizer.json
//
// Each line of input is a JSON object and is answered with one, or with {"error": …}:
//   {"template": source, "variables": {…}, "stops": […], "now": seconds}
//       → {"seal", "stops": tokens; "reasoning", "calls": formats}; later lines use it
//   {"before": [kinds], "turns": [{"kind", "text", "name", "tools"}], "options": {…}}
//       → {"tokens"}
//       "tools" as in pie:plus/turns: also the calls of an assistant, and the id of an answer
//   {"alone": turn}                                                        → {"tokens"}
//   {"messages": […], "tools": […], "cue": bool, "options": {…}}          → {"text"}
//   {"encode": text}, {"decode": tokens, special ones by name}             → {"tokens"}, {"text"}
//   {"held": tokens, "tools": [schemas]}
//       → {"taken"}: how many of them the grammar of calls takes; null if they do not complete it
//   {"held": tokens, "answer": text}: the same of the grammar of thoughts with the answer behind
//   {"reasoning": [[tokens], …], "options": {…}}, {"calls": [[tokens], …]}
//       → {"events"}, one per list
// Without a "template" the file's own is used.
#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <list>
#include <nlohmann/json.hpp>

#include "speech/chat_source.h"
#include "speech/chat_template.h"
#include "speech/grammar.h"
#include "speech/reasoning_decoder.h"
#include "speech/tokenizer.h"
#include "speech/tool_decoder.h"
#include "speech/turn.h"

namespace {

using nlohmann::json;
using pie::CallFormat;
using pie::ChatTemplate;
using pie::Model;
using pie::Result;
using pie::Turn;
using pie::TurnKind;

struct Given {
  Model model;
  pie::ChatSource own;  // the file's own template
};

Result<Given> Load(const std::string& path) {
  Given given;
  given.model.name = "given";
  if (path.ends_with(".gguf")) {
    const auto gguf = PIE_TRY(pie::Gguf::Open(path));
    given.model.tokenizer = PIE_TRY(pie::TokenizerFromGguf(gguf));
    given.own = pie::ReadChatSource(gguf, *given.model.tokenizer);
    return given;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  given.model.tokenizer = PIE_TRY(pie::TokenizerFromJson(content));
  return given;
}

TurnKind ToKind(const std::string& name) {
  constexpr std::array<std::string_view, 6> kNames = {"system", "user",   "assistant",
                                                      "tools",  "answer", "cue"};
  return static_cast<TurnKind>(std::ranges::find(kNames, name) - kNames.begin());
}

// Owns the strings that a Turn refers to.
struct OwnedTurn {
  explicit OwnedTurn(const json& turn)
      : kind(ToKind(turn.at("kind"))),
        text(turn.value("text", "")),
        name(turn.value("name", "")),
        tools(turn.value("tools", std::vector<std::string>())) {
    for (const std::string& tool : tools) {
      schemas.push_back({reinterpret_cast<const uint8_t*>(tool.data()), tool.size()});
    }
  }
  Turn Borrow() const {
    Turn turn = pie::MakeTurn(kind, text, name);
    turn.tools = {schemas.data(), schemas.size()};
    return turn;
  }

  TurnKind kind;
  std::string text;
  std::string name;
  std::vector<std::string> tools;
  std::vector<pie_bridge::Str> schemas;  // the same, borrowed
};

json About(const pie::ChatTemplate& chat) {
  json about = {{"seal", chat.seal()}, {"stops", chat.stop_tokens()}};
  if (const auto& found = chat.reasoning()) {
    about["reasoning"] = {found->open, found->close, found->begins_inside};
  }
  if (const auto& found = chat.calls()) {
    constexpr std::array<const char*, 4> kForms = {"object", "named", "tagged", "python"};
    about["calls"] = {kForms[static_cast<size_t>(found->form)], found->open, found->close};
  }
  return about;
}

json Tokens(const Result<std::vector<uint32_t>>& tokens) {
  if (!tokens) return {{"error", tokens.error().text}};
  return {{"tokens", *tokens}};
}

json Shown(const pie::Tokenizer& tokenizer, const json& tokens) {
  const auto& special = tokenizer.special_tokens();
  std::string text;
  for (uint32_t token : tokens.get<std::vector<uint32_t>>()) {
    const auto found = std::ranges::find(special.ids, token);
    text += found == special.ids.end() ? tokenizer.Bytes(token)
                                       : special.bytes[found - special.ids.begin()];
  }
  return {{"text", text}};
}

Result<json> LoadTemplate(Given& given, const json& request) {
  pie::ChatSource source = given.own;
  source.text = request.value("template", source.text);
  source.special_tokens = request.value("variables", source.special_tokens);
  source.stop_ids = request.value("stops", source.stop_ids);
  given.model.chat.reset();
  const auto start = std::chrono::steady_clock::now();
  given.model.chat = PIE_TRY(
      pie::ChatTemplate::Make(source, *given.model.tokenizer, request.value("now", int64_t{-1})));
  json about = About(*given.model.chat);
  const auto took = std::chrono::steady_clock::now() - start;
  about["us"] = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  return about;
}

Result<ChatTemplate::Options> OptionsOf(const ChatTemplate& chat, const json& request) {
  ChatTemplate::Options options;
  const json given = request.value("options", json::object());
  for (const auto& [name, value] : given.items()) {
    options = PIE_TRY(chat.SetOption(options, name, value.dump()));
  }
  return options;
}

json ToJson(const pie::ReasoningDecoder::Event& event) {
  using Decoder = pie::ReasoningDecoder;
  if (const auto* delta = std::get_if<Decoder::Delta>(&event)) return {"delta", delta->text};
  if (const auto* done = std::get_if<Decoder::Complete>(&event)) return {"complete", done->text};
  return {"start", nullptr};
}

Result<json> Decode(const Model& model, const json& request) {
  json events = json::array();
  if (request.contains("reasoning")) {
    const auto options = PIE_TRY(OptionsOf(*model.chat, request));
    pie::ReasoningDecoder decoder(model, options.begins_inside);
    for (const auto& tokens : request["reasoning"].get<std::vector<std::vector<uint32_t>>>()) {
      events.push_back(ToJson(PIE_TRY(decoder.Feed(tokens))));
    }
    return json{{"events", events}};
  }
  const auto decoder = PIE_TRY(pie::ToolDecoder::Make(model));
  for (const auto& tokens : request["calls"].get<std::vector<std::vector<uint32_t>>>()) {
    const auto call = PIE_TRY(decoder->Feed(tokens));
    if (call) {
      events.push_back({"call", call->name, call->arguments});
    } else {
      events.push_back({decoder->is_assembling() ? "start" : "idle"});
    }
  }
  return json{{"events", events}};
}

Result<std::optional<pie::Grammar>> HoldingGrammar(const ChatTemplate& chat, const json& request) {
  if (request.contains("tools")) {
    return pie::Grammar::OfCalls(chat, request["tools"].get<std::vector<std::string>>());
  }
  if (!chat.reasoning()) return std::nullopt;
  const pie::ReasoningFormat& format = *chat.reasoning();
  const std::string& rules = format.begins_inside ? format.rules_inside : format.rules;
  return PIE_TRY(pie::Grammar::FromEbnf("start: thoughts answer\n" + rules +
                                        "answer: " + request["answer"].dump() + "\n"));
}

Result<json> Hold(const Model& model, const json& request) {
  const auto grammar = PIE_TRY(HoldingGrammar(*model.chat, request));
  if (!grammar) return pie::Fail(pie::Code::kInvalid, "there is no grammar of this");
  pie::Matcher matcher = PIE_TRY(pie::Matcher::Make(pie::GrammarVocabulary(model), *grammar));
  json taken;
  size_t count = 0;
  for (const auto token : request["held"].get<std::vector<uint32_t>>()) {
    if (!matcher.Accept({&token, 1})) break;
    ++count;
    const auto& stops = model.chat->stop_tokens();
    const auto bits = PIE_TRY(matcher.MaskBits());
    const bool may_end = std::ranges::any_of(
        stops, [&](uint32_t stop) { return ((bits[stop / 32] >> (stop % 32)) & 1) != 0; });
    if (matcher.is_terminated() || may_end) taken = count;
  }
  return json{{"taken", taken}};
}

Result<json> Answer(Given& given, const std::string& line) {
  const json request = json::parse(line);
  if (request.contains("encode")) {
    return Tokens(given.model.tokenizer->Encode(request["encode"].get<std::string>()));
  }
  if (request.contains("decode")) return Shown(*given.model.tokenizer, request["decode"]);
  const bool loads = request.contains("template") || request.contains("now");
  if (loads) return LoadTemplate(given, request);
  if (!given.model.chat) return json{{"error", "no template is loaded"}};
  const ChatTemplate& chat = *given.model.chat;
  if (request.contains("alone")) return Tokens(chat.Alone(OwnedTurn(request["alone"]).Borrow()));
  if (request.contains("held")) return Hold(given.model, request);
  if (request.contains("messages")) return json{{"text", PIE_TRY(chat.Render(line))}};
  if (!request.contains("turns")) return Decode(given.model, request);
  std::vector<TurnKind> before;
  for (const std::string& kind : request["before"].get<std::vector<std::string>>()) {
    before.push_back(ToKind(kind));
  }
  const std::list<OwnedTurn> owned(request["turns"].begin(), request["turns"].end());
  std::vector<Turn> turns;
  for (const OwnedTurn& turn : owned) turns.push_back(turn.Borrow());
  return Tokens(chat.Extend(before, turns, PIE_TRY(OptionsOf(chat, request))));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: pie-templates FILE < requests.jsonl\n";
    return 2;
  }
  auto given = Load(argv[1]);
  if (!given) {
    std::cerr << given.error().text << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto answer = Answer(*given, line);
    const json shown = answer ? *answer : json{{"error", answer.error().text}};
    std::cout << shown.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  }
  return 0;
}
