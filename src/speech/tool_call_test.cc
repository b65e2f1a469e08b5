#include "speech/tool_call.h"

#include <gtest/gtest.h>

#include "model/dummy_vocab.h"
#include "model/limits.h"
#include "speech/dummy_model.h"
#include "speech/tool_decoder.h"

namespace pie {
namespace {

using Form = CallFormat::Form;

const CallFormat kHermes{Form::kObject, "<tool_call>", "</tool_call>", "name", "arguments"};
const CallFormat kLlama{Form::kObject, "", "", "name", "parameters"};
const CallFormat kNamed{Form::kNamed, "to=functions.", ""};
const CallFormat kPython{Form::kPython, "<start>", "<end>"};
const CallFormat kTagged{.form = Form::kTagged,
                         .open = "<function=",
                         .close = "</function>",
                         .first = "<parameter=",
                         .middle = ">",
                         .last = "</parameter>"};

// "name(arguments)" of each call, then what is left; "…" if more is needed.
std::string Parsed(const CallFormat& format, std::string_view body, bool ended = false) {
  const ParsedCalls parsed = ParseCall(format, body, ended);
  if (parsed.used == 0) return "…";
  std::string shown;
  for (const ToolCall& call : parsed.calls) shown += call.name + "(" + call.arguments + ") ";
  return shown + "|" + std::string(body.substr(parsed.used));
}

TEST(ToolCall, Objects) {
  EXPECT_EQ(
      Parsed(kHermes, "\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}\n</tool_call>"),
      "f({\"a\": [1, \"}\"]}) |\n</tool_call>");
  EXPECT_EQ(Parsed(kHermes, "\n{\"name\": \"f\", \"argum"), "…");
  EXPECT_EQ(Parsed(kHermes, "\n{\"name\": \"f\", \"argum", true), "|");
  EXPECT_EQ(Parsed(kHermes,
                   R"([{"name": "f", "arguments": {}}, {"name": "g", "arguments": "{\"x\": 1}"}])"),
            "f({}) g({\"x\": 1}) |");
  EXPECT_EQ(Parsed(kHermes, R"({"name": "f"})"), "f({}) |");
  EXPECT_EQ(Parsed(kHermes, R"({"name": "f", "arguments": null})"), "f({}) |");
  EXPECT_EQ(Parsed(kHermes, R"({"name": "f", "parameters": {"a": 1}})"), "f({\"a\": 1}) |");
  CallFormat keyed = kHermes;
  keyed.name_key.clear();
  EXPECT_EQ(Parsed(keyed, R"([{"f": {"a": 1}}])"), "f({\"a\": 1}) |");
}

TEST(ToolCall, WhatIsNoCallIsPassedOver) {
  EXPECT_EQ(Parsed(kHermes, "text"), "|ext");
  EXPECT_EQ(Parsed(kHermes, "{]"), "|]");
  EXPECT_EQ(Parsed(kHermes, R"({"name": 5, "arguments": {}} x)"), "| x");
  EXPECT_EQ(Parsed(kHermes, R"({"name": "f", "arguments": [1]} x)"), "| x");
  EXPECT_EQ(Parsed(kHermes, R"({"name": "f", "arguments": {"a" 1}} x)"), "| x");
  EXPECT_EQ(Parsed(kHermes, R"({"name": "f", "arguments": "no"} x)"), "| x");
  EXPECT_EQ(Parsed(kLlama, R"({"answer": 42})"), "|");
  EXPECT_EQ(Parsed(kLlama, R"({"name": "Bob"})"), "|");
  EXPECT_EQ(Parsed(kHermes, std::string(limits::kToolCallDepth + 1, '[')).substr(0, 2), "|[");
}

TEST(ToolCall, Named) {
  EXPECT_EQ(Parsed(kNamed, "f json{\"a\": 1}rest"), "f({\"a\": 1}) |rest");
  EXPECT_EQ(Parsed(kNamed, "f"), "…");
  EXPECT_EQ(Parsed(kNamed, "f-1.x:0 {"), "…");
  EXPECT_EQ(Parsed(kNamed, "f\n```json\n{}\n```"), "f({}) |\n```");
  EXPECT_EQ(Parsed(kNamed, "(x)"), "|x)");
  EXPECT_EQ(Parsed(kNamed, "f " + std::string(600, 'x')), "|");
}

TEST(ToolCall, Tagged) {
  EXPECT_EQ(Parsed(kTagged,
                   "f>\n<parameter=a>\ntext <b>\n</parameter>\n<parameter=n>\n5\n</parameter>\n"
                   "<parameter=l>[1, {}]</parameter></function> x"),
            "f({\"a\":\"text <b>\",\"n\":5,\"l\":[1,{}]}) | x");
  EXPECT_EQ(Parsed(kTagged, "f>\n<parameter=a>"), "…");
  EXPECT_EQ(Parsed(kTagged, "f></function>"), "f({}) |");
  EXPECT_EQ(Parsed(kTagged, "f><parameter=a>1", true), "f({\"a\":1}) |");
  EXPECT_EQ(Parsed(kTagged, "></function>x"), "|x");
  CallFormat typed = kTagged;
  typed.first = "<p name=\"";
  typed.middle = "\" string=\"true\">";
  typed.last = "</p>";
  EXPECT_EQ(Parsed(typed, "f\"><p name=\"a\" string=\"false\">7</p></function>"), "f({\"a\":7}) |");
}

TEST(ToolCall, TextsThatLookLikeNumbers) {
  ToolTypes types;
  types.Add(R"({"type": "function", "function": {"name": "f", "parameters": {"properties": {
      "text": {"type": "string"}, "some": {"anyOf": [{"type": "string"}, {"type": "null"}]},
      "either": {"type": ["string", "integer"]}, "far": {"$ref": "#/$defs/t"}, "any": {}},
      "$defs": {"t": {"enum": ["1", "2"]}}}}})");
  types.Add("{\"name\": ");
  types.Add(std::string(100'000, '['));
  const auto value = [&](std::string_view name, std::string_view text) {
    const auto body = fmt::format("f<parameter={}>{}</parameter></function>", name, text);
    return ParseCall(kTagged, body, false, &types).calls.at(0).arguments;
  };
  EXPECT_EQ(value("text", "42"), R"({"text":"42"})");
  EXPECT_EQ(value("text", "{\"a\": 1}"), R"({"text":"{\"a\": 1}"})");
  EXPECT_EQ(value("some", "true"), R"({"some":"true"})");
  EXPECT_EQ(value("some", "null"), R"({"some":null})");
  EXPECT_EQ(value("either", "42"), R"({"either":42})");
  EXPECT_EQ(value("far", "2"), R"({"far":"2"})");
  EXPECT_EQ(value("any", "2"), R"({"any":2})");
  EXPECT_EQ(value("other", "2"), R"({"other":2})");
}

TEST(ToolCall, Python) {
  EXPECT_EQ(Parsed(kPython, "[f(a='x', b=[1, True], c={'k': None}), g()]<end>."),
            "f({\"a\":\"x\",\"b\":[1,true],\"c\":{\"k\":null}}) g({}) |.");
  EXPECT_EQ(Parsed(kPython, "f(a=\"q\\\"\\n\")", true), "f({\"a\":\"q\\\"\\n\"}) |");
  EXPECT_EQ(Parsed(kPython, R"(f(a="\u00fc\ud83e\udd67\/", b='\'')<end>)"),
            "f({\"a\":\"ü🥧/\",\"b\":\"'\"}) |");
  EXPECT_EQ(Parsed(kPython, R"(f(a="it\'s")<end>)"), "f({\"a\":\"it's\"}) |");  // no JSON
  EXPECT_EQ(Parsed(kPython, "[f(a=)]<end>"), "|");
  EXPECT_EQ(Parsed(kPython, "[f(a=-1.5e3)"), "…");
  EXPECT_EQ(Parsed(kPython, "f(a=" + std::string(100, '[') + ")<end>"), "|");
}

class ToolDecoderTest : public testing::Test {
 protected:
  // Feeds bytes one by one; every event that is not "nothing", "." for a call that is assembled.
  std::string Feed(std::string_view text) {
    std::string seen;
    for (char c : text) seen += FeedOne({static_cast<uint8_t>(c)});
    return seen;
  }
  std::string FeedOne(const std::vector<uint32_t>& tokens) {
    const auto call = decoder_->Feed(tokens);
    if (!call) return "?" + call.error().text;
    if (*call) return (*call)->name + "(" + (*call)->arguments + ")";
    return decoder_->is_assembling() ? "." : "";
  }

  const Model model_ = MakeDummyModel("dummy");
  std::unique_ptr<ToolDecoder> decoder_ = *ToolDecoder::Make(model_);
};

TEST_F(ToolDecoderTest, FindsCallsInTheText) {
  EXPECT_EQ(Feed("I call <tool_call>{}"),
            "..");  // "{" begins a call; "}" ends a text that is not one
  EXPECT_EQ(Feed("</tool_call> x"), "");
  const std::string call = R"({"name": "f", "arguments": {"a": 1}})";
  EXPECT_EQ(Feed("<tool_call>" + call), std::string(call.size(), '.') + "f({\"a\": 1})");
  EXPECT_EQ(Feed("</tool_call>"), "");
}

TEST_F(ToolDecoderTest, SeveralCallsComeOneByOne) {
  const std::string one = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  const std::string two = R"(<tool_call>{"name": "g", "arguments": {}}</tool_call>)";
  std::vector<uint32_t> tokens;
  for (char c : one + two) tokens.push_back(static_cast<uint8_t>(c));
  tokens.push_back(dummy::kImEnd);
  EXPECT_EQ(FeedOne(tokens), "f({})");
  EXPECT_TRUE(decoder_->is_assembling());
  EXPECT_EQ(FeedOne({}), "g({})");
  EXPECT_EQ(FeedOne({}), "");
  EXPECT_EQ(FeedOne({400}), "?token 400 is outside the vocabulary of 262 tokens");
}

TEST_F(ToolDecoderTest, AStopEndsTheTurn) {
  EXPECT_EQ(Feed("<tool_call>{\"name\""), std::string(8, '.'));
  EXPECT_EQ(FeedOne({dummy::kImEnd}), "");
  EXPECT_EQ(Feed("\"f\"}"), "");
  Feed("<tool_call>{");
  decoder_->Reset();
  EXPECT_EQ(Feed("}"), "");
}

TEST_F(ToolDecoderTest, EndlessCallsAreGivenUp) {
  Feed("<tool_call>[");
  const std::vector<uint32_t> much(limits::kToolCallBytes, ' ');
  EXPECT_EQ(FeedOne(much), "");
  EXPECT_FALSE(decoder_->is_assembling());
}

TEST_F(ToolDecoderTest, BrokenCharactersStayText) {
  Feed("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"");
  EXPECT_EQ(FeedOne({0xC3, '"', '}', '}'}), "");  // no JSON: passed over
  const std::string seen = Feed(R"(<tool_call>{"name": "é", "arguments": {}})");
  EXPECT_TRUE(seen.ends_with(".é({})")) << seen;
}

}  // namespace
}  // namespace pie
