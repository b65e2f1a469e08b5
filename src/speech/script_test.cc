#include "speech/script.h"

#include <gtest/gtest.h>

#include "model/dummy_vocab.h"
#include "speech/dummy_model.h"
#include "speech/turn.h"
#include "speech/turn_recorder.h"

namespace pie {
namespace {

class ScriptTest : public testing::Test {
 protected:
  using Tokens = std::vector<uint32_t>;

  Tokens Text(std::string_view text) const { return *model_.tokenizer->Encode(text); }
  // A context that ends where the model is about to answer.
  Tokens Ask(std::string_view prompt, Tokens before = {}) const {
    for (const auto& turn : {MakeTurn(TurnKind::User, prompt), MakeTurn(TurnKind::Cue)}) {
      const Tokens tokens = *model_.chat->Alone(turn);
      before.insert(before.end(), tokens.begin(), tokens.end());
    }
    return before;
  }
  static Tokens Join(Tokens a, const Tokens& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  // The answer that the model gives by itself, with the end of its turn as "$".
  std::string Say(Script& script, Tokens& context) const {
    std::string said;
    while (true) {
      const auto next = script.Next(context);
      if (next.empty()) return said;
      EXPECT_EQ(next.size(), 1U);
      EXPECT_EQ(next[0].probability, 1);
      context.push_back(next[0].token);
      if (next[0].token == dummy::kImEnd) return said + "$";
      said += static_cast<char>(next[0].token);
    }
  }

  Model model_ = MakeDummyModel("dummy");
};

TEST_F(ScriptTest, AnswersByThePromptAndThenEndsTheTurn) {
  Script script({{.when = "France", .say = {"Paris"}}, {.when = "Peru", .say = {"Lima"}}});
  ASSERT_TRUE(script.Use(model_));
  Tokens peru = Ask("The capital of Peru?");
  EXPECT_EQ(Say(script, peru), "Lima$");
  EXPECT_TRUE(script.Next(peru).empty());  // after its turn
  Tokens chad = Ask("The capital of Chad?");
  EXPECT_EQ(Say(script, chad), "");
  EXPECT_EQ(script.NeverGiven(), std::vector<size_t>{0});
  ASSERT_EQ(script.Unanswered().size(), 1U);
  EXPECT_NE(script.Unanswered()[0].find("Chad"), std::string::npos);
}

TEST_F(ScriptTest, TurnsOfAConversationTakeOneAnswerAfterAnother) {
  Script script({{.say = {"one"}}, {.say = {"two"}}});
  ASSERT_TRUE(script.Use(model_));
  Tokens context = Ask("go");
  const Tokens fork = context;
  EXPECT_EQ(Say(script, context), "one$");
  context = Ask("go", context);
  EXPECT_EQ(Say(script, context), "two$");
  context = Ask("go", context);
  EXPECT_EQ(Say(script, context), "");
  Tokens other = fork;  // another conversation begins with the first answer again
  EXPECT_EQ(Say(script, other), "one$");
}

TEST_F(ScriptTest, ATurnThatWasCutUsesUpItsAnswer) {
  Script script({{.say = {"one"}}, {.say = {"two"}}});
  ASSERT_TRUE(script.Use(model_));
  Tokens cut = Ask("again", Join(Ask("go"), Text("on")));
  EXPECT_EQ(Say(script, cut), "two$");
  Tokens example = Ask("again", Join(Ask("go"), Text("an example")));  // the model never said that
  EXPECT_EQ(Say(script, example), "one$");
}

TEST_F(ScriptTest, AnAnswerMayRepeat) {
  Script script({{.when = "go", .say = {"on"}, .repeat = true}});
  ASSERT_TRUE(script.Use(model_));
  Tokens context = Ask("go");
  EXPECT_EQ(Say(script, context), "on$");
  context = Ask("go", context);
  EXPECT_EQ(Say(script, context), "on$");
}

TEST_F(ScriptTest, AlternativesShareTheProbability) {
  Script script({{.say = {"ab", "ac", "b"}, .weights = {1, 1, 2}}});
  ASSERT_TRUE(script.Use(model_));
  const Tokens context = Ask("?");
  auto next = script.Next(context);
  ASSERT_EQ(next.size(), 2U);
  EXPECT_EQ(next[0].token, 'a');
  EXPECT_FLOAT_EQ(next[0].probability, 0.5);
  next = script.Next(Join(context, Text("a")));
  ASSERT_EQ(next.size(), 2U);
  EXPECT_EQ(next[1].token, 'c');
  EXPECT_FLOAT_EQ(next[1].probability, 0.5);
}

TEST_F(ScriptTest, ATextMayBeContinuedOutsideOfTurns) {
  Script script({{.after = "Once upon", .say = {" a time"}, .end_turn = false}});
  ASSERT_TRUE(script.Use(model_));
  Tokens context = Text("Once upon");
  EXPECT_EQ(Say(script, context), " a time");
  Tokens inside = Text("Once upon a t");
  EXPECT_EQ(Say(script, inside), "ime");
  Tokens other = Text("Twice upon");
  EXPECT_EQ(Say(script, other), "");
}

TEST_F(ScriptTest, CharactersOfSeveralBytesCome) {
  Script script({{.say = {"é!"}}});
  ASSERT_TRUE(script.Use(model_));
  Tokens context = Ask("?");
  EXPECT_EQ(Say(script, context), "é!$");
}

TEST_F(ScriptTest, WhatWasSaidBecomesAScript) {
  TurnRecorder recorder;
  ASSERT_TRUE(recorder.Use(model_));
  Tokens context = Ask("Hello there");
  for (const uint32_t token : Join(Text("Hi"), {dummy::kImEnd})) {
    recorder.Observe(context, token);
    context.push_back(token);
  }
  // Two forks of a second turn. The draft of the first, "x", was rejected.
  const Tokens second = Ask("Choose", context);
  recorder.Observe(second, 'a');
  recorder.Observe(Join(second, Text("x")), 'y');
  recorder.Observe(second, 'b');
  recorder.Observe(Join(second, Text("a")), 'c');
  const auto answers = recorder.Answers();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].when, "Hello there");
  EXPECT_EQ(answers[0].say, std::vector<std::string>{"Hi"});
  EXPECT_TRUE(answers[0].end_turn);
  EXPECT_EQ(answers[1].when, "Choose");
  EXPECT_EQ(answers[1].say, (std::vector<std::string>{"ac", "b"}));
  EXPECT_FALSE(answers[1].end_turn);
}

}  // namespace
}  // namespace pie
