// Grammars, matchers and drafts as guests use them, on the dummy model, whose tokens are bytes.
#include <future>
#include <regex>
#include <thread>

#include "host/api_chain_testing.h"
#include "host/await.h"

namespace pie::host {
namespace {

class ApiGrammarTest : public ApiChainTest {
 protected:
  ApiGrammarTest() { tokenizer_ = Ok(ModelTokenizer(*process_, model_)); }

  uint32_t Regex(std::string_view pattern) {
    return Ok(Waited([&](host::Wait& wait) { return GrammarFromRegex(*process_, pattern, wait); }));
  }
  uint32_t Schema(std::string_view schema) {
    return Ok(
        Waited([&](host::Wait& wait) { return GrammarFromJsonSchema(*process_, schema, wait); }));
  }
  uint32_t MatcherFor(uint32_t grammar) {
    return Ok(
        Waited([&](host::Wait& wait) { return MatcherNew(*process_, grammar, tokenizer_, wait); }));
  }
  uint32_t RegexMatcher(std::string_view pattern) { return MatcherFor(Regex(pattern)); }
  static Tokens Bytes(std::string_view text) { return {text.begin(), text.end()}; }
  static std::string Text(const Tokens& tokens) { return {tokens.begin(), tokens.end()}; }

  struct Made {
    std::string text;
    Progress all;
    size_t batches;
  };
  // A chain that matchers hold.
  Made RunHeld(const std::vector<uint32_t>& matchers, uint32_t max_tokens = 60,
               const Tokens& mask = {}) {
    const uint32_t context = NewContext();
    const uint32_t pass = Pass(context, kPrompt, 11);
    if (!mask.empty()) Ok(ForwardPassLogitMask(*process_, pass, mask));
    for (const uint32_t matcher : matchers) {
      Ok(ConstraintsConstrain(*process_, pass, matcher));
    }
    const size_t before = gate_->batches().size();
    Made made;
    made.all = TakeAll(Ok(ChainsRun(*process_, pass, max_tokens, {})));
    made.batches = gate_->batches().size() - before;
    made.text = Text(made.all.tokens);
    return made;
  }

  uint32_t tokenizer_ = 0;
};

TEST_F(ApiGrammarTest, AMatcherFollowsATextAndGoesBack) {
  const uint32_t matcher = RegexMatcher("a(b|c)d*");
  EXPECT_EQ(Ok(MatcherNextTokenLogitMask(*process_, matcher)), Tokens({'a', 1}));
  Ok(MatcherAcceptTokens(*process_, matcher, Bytes("a")));
  EXPECT_NE(ErrorOf(MatcherAcceptTokens(*process_, matcher, Bytes("d"))), "");
  const uint32_t fork = Ok(ConstraintsFork(*process_, matcher));
  Ok(MatcherAcceptTokens(*process_, matcher, Bytes("bd")));
  Ok(MatcherAcceptTokens(*process_, fork, Bytes("c")));
  Ok(ConstraintsRollback(*process_, matcher, 2));
  Ok(MatcherAcceptTokens(*process_, matcher, Bytes("c")));
  EXPECT_NE(ErrorOf(ConstraintsRollback(*process_, matcher, 9)), "");
  EXPECT_FALSE(Ok(MatcherIsTerminated(*process_, matcher)));
  Ok(MatcherReset(*process_, matcher));
  EXPECT_EQ(Ok(ConstraintsForcedTokens(*process_, matcher)), Bytes("a"));
  EXPECT_EQ(Ok(GrammarToString(*process_, Regex("xy"))), "xy");
}

TEST_F(ApiGrammarTest, AGrammarIsChargedForItsMemory) {
  const std::string lark = fmt::format("start: \"{}\"", std::string(300'000, 'a'));
  std::string refused;
  for (int i = 0; i < 10 && refused.empty(); ++i) {
    refused =
        ErrorOf(Waited([&](host::Wait& wait) { return GrammarFromEbnf(*process_, lark, wait); }));
  }
  EXPECT_NE(refused.find("memory limit"), std::string::npos) << refused;
}

TEST_F(ApiGrammarTest, WorkOfAGuestThatHasEndedIsNotDone) {
  std::promise<void> gate;
  const auto opened = gate.get_future().share();
  WorkQueue& queue = engine_->grammar_work();
  for (const char* user : {"one", "another"}) queue.Push(user, [opened] { opened.wait(); });
  bool done = false;
  const auto work = [&] {
    done = true;
    return Result<int>(1);
  };
  auto dropped = *RunGrammarWork<int>(*process_, work);
  dropped.reset();
  const auto kept = *RunGrammarWork<int>(*process_, [] { return Result<int>(2); });
  gate.set_value();
  while (!kept->ready()) std::this_thread::yield();
  engine_->WaitIdle(5'000);
  EXPECT_EQ(*kept->Take(), 2);
  EXPECT_FALSE(done);
}

TEST_F(ApiGrammarTest, AMatcherIsChargedForItsText) {
  const uint32_t matcher = RegexMatcher("(.|\n)*");
  const Tokens text(10'000, 'a');
  std::string refused;
  uint32_t taken = 0;
  while (refused.empty() && taken < 10'000'000) {
    refused = ErrorOf(MatcherAcceptTokens(*process_, matcher, text));
    if (refused.empty()) taken += 10'000;
  }
  EXPECT_NE(refused.find("memory limit"), std::string::npos) << refused;
  EXPECT_GT(taken, 0u);
  // The tokens of the call that was refused were not accepted.
  EXPECT_NE(ErrorOf(ConstraintsRollback(*process_, matcher, taken + 1)), "");
  Ok(ConstraintsRollback(*process_, matcher, taken));
  Ok(MatcherAcceptTokens(*process_, matcher, Bytes("a")));
}

// Tokens of chains wait for a matcher until it is used.
TEST_F(ApiGrammarTest, AMatcherIsChargedForTheTokensThatWaitForIt) {
  const uint32_t matcher = RegexMatcher("(.|\n)*");
  const Tokens text(10'000, 'a');
  GuestMatcher& held = **Ok(process_->handles().matchers.Get(matcher));
  held.Follow(text);
  EXPECT_EQ(held.behind_charge.bytes(), text.size() * sizeof(uint32_t));
  EXPECT_FALSE(Ok(MatcherNextTokenLogitMask(*process_, matcher)).empty());
  EXPECT_EQ(held.behind_charge.bytes(), 0U);
  // The matcher that misses tokens says so until it is reset.
  Ok(MatcherReset(*process_, matcher));
  for (size_t i = 0; i < kMostBehind; i += text.size()) held.Follow(text);
  held.Follow(text);
  EXPECT_EQ(held.behind_charge.bytes(), 0U);
  const std::string error = ErrorOf(MatcherNextTokenLogitMask(*process_, matcher));
  EXPECT_NE(error.find("use it between chains, or reset it"), std::string::npos) << error;
  EXPECT_EQ(ErrorOf(ConstraintsFork(*process_, matcher)), error);
  Ok(MatcherReset(*process_, matcher));
  Ok(MatcherAcceptTokens(*process_, matcher, Bytes("a")));
}

// The handle of the chain keeps the matcher, which would accept the chain's tokens.
TEST_F(ApiGrammarTest, AMatcherIsChargedAsLongAsAChainHoldsIt) {
  const uint32_t grammar = Regex("a");
  std::string refused;
  for (int i = 0; i < 60 && refused.empty(); ++i) {
    const auto matcher =
        Waited([&](host::Wait& wait) { return MatcherNew(*process_, grammar, tokenizer_, wait); });
    refused = ErrorOf(matcher);
    if (!matcher) break;
    const uint32_t context = NewContext();
    const uint32_t pass = Pass(context, kPrompt);
    refused = ErrorOf(ConstraintsConstrain(*process_, pass, *matcher));
    if (refused.empty()) refused = ErrorOf(ChainsRun(*process_, pass, 1, {}));
    EXPECT_TRUE(engine_->WaitIdle(5'000));  // until the pass has given back what it is charged
    Ok(MatcherDrop(*process_, *matcher));
    Ok(ContextDrop(*process_, context));
  }
  EXPECT_NE(refused.find("memory limit"), std::string::npos) << refused;
}

TEST_F(ApiGrammarTest, AMatcherLeavesWithItsHandleWhenItsChainHasEnded) {
  const uint32_t grammar = Regex("ab");
  for (int i = 0; i < 60; ++i) {
    const uint32_t matcher = MatcherFor(grammar);
    const uint32_t context = NewContext();
    const uint32_t pass = Pass(context, kPrompt);
    Ok(ConstraintsConstrain(*process_, pass, matcher));
    TakeAll(Ok(ChainsRun(*process_, pass, 5, {})));
    Ok(MatcherDrop(*process_, matcher));
    Ok(ContextDrop(*process_, context));
  }
}

TEST_F(ApiGrammarTest, AGrammarIsChargedWhileItWaitsForACompiler) {
  std::promise<void> gate;
  const auto opened = gate.get_future().share();
  WorkQueue& queue = engine_->grammar_work();
  const uint32_t grammar = Regex(std::string(300'000, 'a'));
  for (const char* user : {"one", "another"}) queue.Push(user, [opened] { opened.wait(); });
  const auto free_bytes = [&] {
    Charge rest = process_->NewCharge();
    while (rest.Grow(1'000)) {
    }
    return rest.bytes();
  };
  const size_t before = free_bytes();
  host::Wait wait{};
  Ok(MatcherNew(*process_, grammar, tokenizer_, wait));
  EXPECT_NE(wait.signal, nullptr);
  EXPECT_LT(free_bytes() + 300'000, before);
  gate.set_value();
  while (!(*process_->handles().calls.Get(wait.ticket))->get()->ready()) {
    std::this_thread::yield();
  }
  wait.signal = nullptr;
  std::ignore = MatcherNew(*process_, grammar, tokenizer_, wait);  // it takes the answer
}

TEST_F(ApiGrammarTest, AMatcherThatHoldsAPassTwiceFollowsItsChainOnce) {
  const uint32_t matcher = RegexMatcher("ab(c|d)e");
  const Made made = RunHeld({matcher, matcher});
  EXPECT_EQ(made.text.size(), 4U);
  EXPECT_TRUE(Ok(MatcherIsTerminated(*process_, matcher)));
}

TEST_F(ApiGrammarTest, ForksOfAMatcherAreChargedForItsText) {
  const uint32_t matcher = RegexMatcher("(.|\n)*");
  Ok(MatcherAcceptTokens(*process_, matcher, Tokens(10'000, 'a')));
  std::string refused;
  for (int i = 0; i < 20 && refused.empty(); ++i) {
    refused = ErrorOf(ConstraintsFork(*process_, matcher));
  }
  EXPECT_NE(refused.find("memory limit"), std::string::npos) << refused;
}

TEST_F(ApiGrammarTest, MatchersOfAGrammarShareTheChargeForIt) {
  const auto held = [&](uint32_t matcher) -> const GuestMatcher& {
    return **Ok(process_->handles().matchers.Get(matcher));
  };
  const uint32_t first = RegexMatcher("[a-c]+(x|y)"), second = RegexMatcher("[a-c]+(x|y)");
  const uint32_t fork = Ok(ConstraintsFork(*process_, first));
  const uint32_t other = RegexMatcher("[d-f]+");
  ASSERT_TRUE(held(first).compiled);
  EXPECT_GT(held(first).matcher.compiled_bytes(), 0u);
  EXPECT_EQ(held(second).compiled, held(first).compiled);
  EXPECT_EQ(held(fork).compiled, held(first).compiled);
  EXPECT_NE(held(other).compiled, held(first).compiled);
  const std::weak_ptr<const Charge> charge = held(first).compiled;
  for (const uint32_t matcher : {first, second, fork}) Ok(MatcherDrop(*process_, matcher));
  EXPECT_TRUE(charge.expired());
}

TEST_F(ApiGrammarTest, SlowGrammarsGiveTheSameTexts) {
  constexpr auto kPattern = "key: [a-f]{3,5}; (x|yz)+ end";
  const Made quick = RunHeld({RegexMatcher(kPattern)});
  process_->user()->lent->Spend(1'000'000'000);
  const Made slow = RunHeld({RegexMatcher(kPattern)});
  EXPECT_EQ(slow.all.error, "");
  EXPECT_EQ(slow.text, quick.text);
  EXPECT_EQ(slow.all.ended, quick.all.ended);
  EXPECT_EQ(slow.batches, quick.batches);
}

TEST_F(ApiGrammarTest, WrongSourcesAreErrorsWithTheirPlace) {
  const auto fault = [&](auto call) { return ErrorOf(Waited(call)); };
  EXPECT_NE(fault([&](host::Wait& w) { return GrammarFromRegex(*process_, "a(", w); }), "");
  const std::string schema = fault([&](host::Wait& w) {
    return GrammarFromJsonSchema(*process_, R"({"properties": {"a": {"contains": 1}}})", w);
  });
  EXPECT_NE(schema.find("/properties/a"), std::string::npos) << schema;
  EXPECT_NE(fault([&](host::Wait& w) { return GrammarFromEbnf(*process_, "root ::= (", w); }), "");
  EXPECT_NE(fault([&](host::Wait& w) { return GrammarFromEbnf(*process_, "start: b", w); }), "");
}

TEST_F(ApiGrammarTest, AChainFollowsItsMatcherWithoutTheGuest) {
  const uint32_t matcher = RegexMatcher("key: [a-f]{3,5}; end");
  const Made made = RunHeld({matcher});
  EXPECT_TRUE(std::regex_match(made.text, std::regex("key: [a-f]{3,5}; end"))) << made.text;
  EXPECT_EQ(made.all.ended, ChainsEnding::Complete);
  EXPECT_LT(made.batches, made.text.size() - 4) << "forced tokens need no pass of their own";
  // The guest's matcher has followed.
  EXPECT_TRUE(Ok(MatcherIsTerminated(*process_, matcher)));
}

TEST_F(ApiGrammarTest, TheChainsContextHoldsEveryTokenButTheLast) {
  const uint32_t matcher = RegexMatcher("begin [a-z]{6} and then [a-z]{6} end");
  const uint32_t context = NewContext();
  const uint32_t pass = Pass(context, kPrompt, 5);
  Ok(ConstraintsConstrain(*process_, pass, matcher));
  const Progress all = TakeAll(Ok(ChainsRun(*process_, pass, 100, {})));
  const uint32_t fresh = NewContext();
  Tokens fed = kPrompt;
  fed.insert(fed.end(), all.tokens.begin(), all.tokens.end());
  EXPECT_EQ(Step(context, {all.tokens.back()}), Step(fresh, fed));
  EXPECT_EQ(Length(CountsOf(context)), Length(CountsOf(fresh)));
}

TEST_F(ApiGrammarTest, JsonThatAlwaysParses) {
  const uint32_t grammar = Schema(
      R"({"type": "object", "properties": {"kind": {"enum": ["left", "right"]},
          "count": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["kind", "count"], "additionalProperties": false})");
  const Made made = RunHeld({MatcherFor(grammar)}, 200);
  EXPECT_EQ(made.all.ended, ChainsEnding::Complete) << made.text;
  const char* kForm =
      "\\{\\s*\"kind\"\\s*:\\s*\"(left|right)\"\\s*,\\s*\"count\"\\s*:\\s*\\d{1,2}\\s*\\}";
  EXPECT_TRUE(std::regex_match(made.text, std::regex(kForm))) << made.text;
}

TEST_F(ApiGrammarTest, MatchersAndTheMaskHoldTogether) {
  const Made made =
      RunHeld({RegexMatcher("[a-m]{8}"), RegexMatcher("[g-z]{8}")}, 60, {'a', 'k' - 'a' + 1});
  EXPECT_TRUE(std::regex_match(made.text, std::regex("[g-k]{8}"))) << made.text;
  EXPECT_EQ(made.all.ended, ChainsEnding::Complete);
  const Made none = RunHeld({RegexMatcher("aa[b-c]"), RegexMatcher("aa[x-z]")});
  EXPECT_EQ(none.all.error,
            "no token is allowed at position 2 of the text by all of: the grammar 'aa[b-c]', the "
            "grammar 'aa[x-z]'");
}

TEST_F(ApiGrammarTest, ASinglePassHasTheMatchersMask) {
  const uint32_t matcher = RegexMatcher("q+");
  const uint32_t pass = Pass(context_, kPrompt);
  Ok(ConstraintsConstrain(*process_, pass, matcher));
  const uint32_t future = Ok(ForwardPassExecute(*process_, pass));
  const auto output = Wait(future);
  EXPECT_EQ(std::get<TokenSlot>(output.slots.at(0)).token, uint32_t{'q'});
  EXPECT_FALSE(Ok(MatcherIsTerminated(*process_, matcher)));
}

TEST_F(ApiGrammarTest, DraftsAreVerifiedAndRejectedOnesTakenBack) {
  const uint32_t looped = NewContext();
  const Tokens expected = Loop(looped, kPrompt, 6, 40);
  for (size_t right = 0; right <= 5; ++right) {
    Tokens draft(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(right));
    draft.resize(5, '#');
    const uint32_t context = NewContext();
    Ok(ContextReserveWorkingPages(*process_, context, 2));
    const uint32_t pass = Pass(context, kPrompt, 40);
    Tokens positions;
    for (uint32_t i = 0; i < draft.size(); ++i) positions.push_back(6 + i);
    Ok(ContextReserveWorkingPages(*process_, context, 1));
    Ok(ForwardPassInputSpeculativeTokens(*process_, pass, draft, positions));
    const uint32_t future = Ok(ForwardPassExecute(*process_, pass));
    EXPECT_EQ(TokensOf(Wait(future)),
              Tokens(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(right) + 1));
    EXPECT_EQ(Length(CountsOf(context)), 6 + right);
    EXPECT_EQ(Step(context, {expected[right]}, 41 + right),
              right < 5 ? expected[right + 1] : Step(looped, {expected[5]}, 46));
  }
}

TEST_F(ApiGrammarTest, AContextWaitsForTheVerdictOnItsDrafts) {
  gate_->Hold();
  const uint32_t pass = Pass(context_, kPrompt);
  Ok(ForwardPassInputSpeculativeTokens(*process_, pass, Tokens{'a'}, Tokens{6}));
  const uint32_t future = Ok(ForwardPassExecute(*process_, pass));
  EXPECT_EQ(ErrorOf(ContextFork(*process_, context_)),
            "a pass with draft tokens runs on this context: wait for its output first");
  gate_->Open();
  Wait(future);
  Ok(ContextFork(*process_, context_));
}

TEST_F(ApiGrammarTest, BadDraftsAreRefused) {
  const auto fault = [&](const Tokens& draft, const Tokens& positions) {
    const uint32_t pass = Pass(NewContext(), kPrompt);
    Ok(ForwardPassInputSpeculativeTokens(*process_, pass, draft, positions));
    return ErrorOf(ForwardPassExecute(*process_, pass));
  };
  EXPECT_EQ(fault({9999}, {6}), "token 9999 is not in the vocabulary, whose ids are 0 to 261");
  EXPECT_EQ(fault({'a', 'b'}, {6}),
            "1 positions for 2 draft tokens: give one position for each token");
  EXPECT_NE(fault({'a'}, {4'000'000'000}), "");
  EXPECT_NE(fault(Tokens(100'000, 'a'), Tokens(100'000, 6)), "");
}

TEST_F(ApiGrammarTest, TheEngineGuessesAndTheTokensStayTheSame) {
  Tokens repeating;
  for (int i = 0; i < 8; ++i) repeating.insert(repeating.end(), {'a', 'b', 'c', 'd', 'e', ' '});
  const Tokens mask = {'a', 5, 262 - 'f'};
  const auto run = [&](bool speculate) {
    const uint32_t pass = Pass(NewContext(), repeating, 7);
    Ok(ForwardPassLogitMask(*process_, pass, mask));
    Ok(ForwardPassOutputSpeculativeTokens(*process_, pass, speculate));
    return TakeAll(Ok(ChainsRun(*process_, pass, 200, {}))).tokens;
  };
  const Tokens plain = run(false);
  EXPECT_EQ(run(true), plain);
  EXPECT_EQ(run(true), plain);  // the second finds what the first gave
  engine_->WaitIdle(5'000);
  const SchedulerStats stats = engine_->models()[0].scheduler->stats();
  EXPECT_GT(stats.drafted, 0U);
  EXPECT_GT(stats.confirmed, 0U);
}

TEST_F(ApiGrammarTest, APassReturnsTheEnginesDraftsForTheNext) {
  Tokens repeating;
  for (int i = 0; i < 8; ++i) repeating.insert(repeating.end(), {'x', 'y', 'z'});
  const uint32_t pass = Pass(NewContext(), repeating);
  const Tokens only_x = {'x', 1};
  Ok(ForwardPassLogitMask(*process_, pass, only_x));
  Ok(ForwardPassOutputSpeculativeTokens(*process_, pass, true));
  const auto output = Wait(Ok(ForwardPassExecute(*process_, pass)));
  EXPECT_EQ(TokensOf(output), Tokens({'x'}));
  EXPECT_EQ(Tokens(output.spec_tokens.begin(), output.spec_tokens.begin() + 3),
            Tokens({'y', 'z', 'x'}));
  EXPECT_EQ(output.spec_positions.at(0), 25U);
}

TEST_F(ApiGrammarTest, AToolCallIsAlwaysWellFormed) {
  const std::string tool =
      R"({"name": "weather", "description": "", "parameters": {"type": "object",
          "properties": {"city": {"enum": ["Bern", "Oslo"]}}, "required": ["city"],
          "additionalProperties": false}})";
  const Str text = ToStr(tool);
  const auto grammar =
      Ok(Waited([&](host::Wait& w) { return ToolUseFormat(*process_, model_, {&text, 1}, w); }));
  ASSERT_TRUE(grammar);
  const uint32_t matcher = Ok(Waited(
      [&](host::Wait& w) { return ToolUseCreateMatcher(*process_, model_, {&text, 1}, w); }));
  const Made made = RunHeld({matcher}, 200);
  const uint32_t decoder = Ok(ToolUseCreateDecoder(*process_, model_));
  const auto event = Ok(ToolUseDecoderFeed(*process_, decoder, made.all.tokens));
  ASSERT_TRUE(std::holds_alternative<ToolUseEventCall>(event)) << made.text;
  EXPECT_EQ(std::get<0>(std::get<ToolUseEventCall>(event).value), "weather");
  EXPECT_EQ(ErrorOf(Waited(
                [&](host::Wait& w) { return ToolUseCreateMatcher(*process_, model_, {}, w); })),
            "model 'default' has no form of tool calls that a grammar can hold it to, or no tools "
            "are given");
}

TEST_F(ApiGrammarTest, AToolsWrongSchemaIsAnErrorThatTellsWhere) {
  const auto made = [&](const std::string& tool) {
    const Str text = ToStr(tool);
    return Waited(
        [&](host::Wait& w) { return FallibleCreateToolGrammar(*process_, model_, {&text, 1}, w); });
  };
  EXPECT_EQ(
      ErrorOf(made(R"({"name": "add", "parameters": {"properties": {"a": {"contains": {}}}}})")),
      "the parameters of the tool 'add': /properties/a/contains: the keyword `contains` is "
      "not enforced");
  EXPECT_TRUE(ErrorOf(made("{")).starts_with("a tool's schema is not JSON"));
  std::string deep = "{}";
  for (int i = 0; i < 200; ++i) deep = R"({"items": )" + deep + "}";
  EXPECT_NE(ErrorOf(made(R"({"name": "add", "parameters": )" + deep + "}")).find("recursion limit"),
            std::string::npos);
  const size_t most = engine_->limits().max_turn_bytes;
  EXPECT_NE(ErrorOf(made(std::string(most + 1, ' '))).find("which is the limit"),
            std::string::npos);
  EXPECT_TRUE(Ok(made(R"({"name": "add"})")));
}

TEST_F(ApiGrammarTest, TheMarksOfThoughtsAreThoseOfTheTemplate) {
  const auto marks = Ok(ThoughtsMarks(*process_, model_));
  ASSERT_TRUE(marks);
  EXPECT_EQ(marks->open, "<think>");
  EXPECT_EQ(marks->close, "</think>");
  EXPECT_FALSE(marks->close_token);
  EXPECT_FALSE(marks->begins_inside);
  EXPECT_TRUE(marks->rules.starts_with("thoughts: \"<think>\" ")) << marks->rules;
}

}  // namespace
}  // namespace pie::host
