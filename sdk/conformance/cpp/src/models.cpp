// Cases about the runtime, models, tokenizers, chat templates and what is not available yet.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

#include "cases.h"

using namespace inferlet;

namespace {

Task<Result<Json>> Echo(const Json& input) {
  co_return input["value"];
}

Task<Result<Json>> Print(const Json& input) {
  const auto texts = PIE_TRY(input.Get<std::vector<std::string>>("texts"));
  for (const std::string& text : texts) std::cout << text << '\n';
  co_return texts.size();
}

Task<Result<Json>> RuntimeFacts(const Json&) {
  co_return Json::Object({{"models", runtime::Models()},
                          {"username", runtime::Username()},
                          {"version", !runtime::Version().empty()},
                          {"instance_id", !runtime::InstanceId().empty()}});
}

Task<Result<Json>> TokenizerCase(const Json& input) {
  Model model = PIE_TRY(FirstModel());
  const auto tokens = model.Tokenizer().Encode(PIE_TRY(input.Get<std::string>("text")));
  const std::string text = PIE_TRY(model.Tokenizer().Decode(tokens));
  co_return Json::Object({{"tokens", tokens}, {"text", text}});
}

Task<Result<Json>> DecodeSpecial(const Json&) {
  Model model = PIE_TRY(FirstModel());
  const auto cue = chat::Cue(model);
  co_return Json::Object({{"cue", PIE_TRY(model.Tokenizer().Decode(cue))},
                          {"without", PIE_TRY(model.Tokenizer().Decode(cue, true))}});
}

Task<Result<Json>> TokenizerBad(const Json& input) {
  Model model = PIE_TRY(FirstModel());
  const auto tokens = PIE_TRY(input.Get<std::vector<uint32_t>>("tokens"));
  co_return PIE_TRY(model.Tokenizer().Decode(tokens));
}

Task<Result<Json>> Vocab(const Json&) {
  Model model = PIE_TRY(FirstModel());
  const Tokenizer& tokenizer = model.Tokenizer();
  const Vocabulary vocabulary = tokenizer.Vocabs();
  std::vector<uint32_t> dense(vocabulary.ids.size());
  std::iota(dense.begin(), dense.end(), 0);
  std::vector<std::string> special = tokenizer.SpecialTokens().bytes;
  std::sort(special.begin(), special.end());
  co_return Json::Object({{"count", vocabulary.ids.size()},
                          {"dense", vocabulary.ids == dense},
                          {"a", vocabulary.bytes[tokenizer.Encode("a").front()]},
                          {"special", special},
                          {"split_regex", tokenizer.SplitRegex()}});
}

Task<Result<Json>> ChatTokens(const Json& input) {
  Model model = PIE_TRY(FirstModel());
  const auto system = PIE_TRY(input.Get<std::string>("system"));
  const auto user = PIE_TRY(input.Get<std::string>("user"));
  const auto assistant = PIE_TRY(input.Get<std::string>("assistant"));
  co_return Json::Object({{"system", chat::System(model, system)},
                          {"user", chat::User(model, user)},
                          {"assistant", chat::Assistant(model, assistant)},
                          {"cue", chat::Cue(model)},
                          {"seal", chat::Seal(model)},
                          {"stop", chat::StopTokens(model)}});
}

Json ToJson(const chat::Event& event) {
  if (const auto* delta = std::get_if<chat::Delta>(&event))
    return Json::Array({"delta", delta->text});
  if (const auto* done = std::get_if<chat::Done>(&event)) return Json::Array({"done", done->text});
  if (const auto* control = std::get_if<chat::Interrupt>(&event)) {
    return Json::Array({"interrupt", control->token});
  }
  return Json::Array({"idle", nullptr});
}

Json ToJson(const reasoning::Event& event) {
  if (const auto* delta = std::get_if<reasoning::Delta>(&event))
    return Json::Array({"delta", delta->text});
  if (const auto* end = std::get_if<reasoning::End>(&event)) return Json::Array({"end", end->text});
  const bool starts = std::holds_alternative<reasoning::Start>(event);
  return Json::Array({starts ? "start" : "idle", nullptr});
}

Json ToJson(const tools::Event& event) {
  if (const auto* call = std::get_if<tools::Call>(&event))
    return Json::Array({"call", call->name, call->arguments});
  return Json::Array({std::holds_alternative<tools::Start>(event) ? "start" : "idle"});
}

using Tokens = std::vector<uint32_t>;

// The tokens that a decoder is fed: the batches, or else one token at a time.
Result<std::vector<Tokens>> Fed(const Json& input) {
  if (auto batches = input.Get<std::vector<Tokens>>("batches")) return batches;
  std::vector<Tokens> one_by_one;
  for (const uint32_t token : PIE_TRY_SYNC(input.Get<Tokens>("tokens"))) {
    one_by_one.push_back({token});
  }
  return one_by_one;
}

template <class Decoder>
Task<Result<Json>> Decode(const Json& input) {
  Decoder decoder(PIE_TRY(FirstModel()));
  Json events = Json::Array();
  for (const Tokens& batch : PIE_TRY(Fed(input))) {
    events.Append(ToJson(PIE_TRY(decoder.Feed(batch))));
  }
  co_return events;
}

Task<Result<Json>> Market(const Json&) {
  Model model = PIE_TRY(FirstModel());
  Context context = PIE_TRY(Context::New(model));
  co_return Json::Object({{"price", std::isfinite(scheduling::Price())},
                          {"rent", std::isfinite(scheduling::Rent(context))},
                          {"dividend", std::isfinite(scheduling::Dividend(model))},
                          {"latency", std::isfinite(scheduling::Latency(context))},
                          {"balance", std::isfinite(scheduling::Balance(model))}});
}

Task<Result<Json>> Unavailable(const Json&) {
  co_return Json::Object({{"mcp", !mcp::Connect("none").error().message.empty()}});
}

}  // namespace

Cases ModelCases() {
  return {{"echo", Echo},
          {"print", Print},
          {"runtime", RuntimeFacts},
          {"tokenizer", TokenizerCase},
          {"decode_special", DecodeSpecial},
          {"tokenizer_bad", TokenizerBad},
          {"vocab", Vocab},
          {"chat_tokens", ChatTokens},
          {"chat_decoder", Decode<chat::Decoder>},
          {"reasoning_decoder", Decode<reasoning::Decoder>},
          {"tool_decoder", Decode<tools::Decoder>},
          {"scheduling", Market},
          {"unavailable", Unavailable}};
}
