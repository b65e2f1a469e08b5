// Steps in two calls against the same passes in many: the same tokens, and the same errors.
#include <limits>
#include <optional>

#include "host/api_testing.h"

namespace pie::host {
namespace {

using Tokens = std::vector<uint32_t>;
using Kind = pie_bridge::SamplerKind;

struct Asked {
  Tokens tokens = {'a'};
  Tokens mask = {};
  std::optional<uint64_t> seed = {};
  pie_bridge::Sampler sampler = {.kind = Kind::TopK, .temperature = 0, .count = 1, .p = 1};
};

// A pass's end: its token, if that is all it gave, or what went wrong.
struct Given {
  std::optional<uint32_t> token;
  std::string error = {};
  friend bool operator==(const Given&, const Given&) = default;
};

class ApiStepTest : public ApiTest {
 protected:
  uint32_t NewContext(uint32_t pages = 16) {
    const uint32_t context = Ok(ContextCreate(*process_, model_));
    Ok(ContextReserveWorkingPages(*process_, context, pages));
    return context;
  }
  uint32_t Length(uint32_t context) {
    return (*process_->handles().contexts.Get(context))->tokens();
  }
  Result<uint32_t> Begin(uint32_t context, const Asked& asked) {
    return StepsBegin(*process_, context, asked.tokens, asked.mask, asked.seed, asked.sampler);
  }
  Given Finish(uint32_t future) {
    while (true) {
      Wait wait{};
      const auto given = StepsFinish(*process_, future, wait);
      if (!given) return {.error = ErrorOf(given)};
      if (wait.signal == nullptr) {
        const auto* token = std::get_if<StepsGivenToken>(&*given);
        return {.token = token != nullptr ? std::optional(token->value) : std::nullopt};
      }
      std::this_thread::yield();
    }
  }
  Given Short(uint32_t context, const Asked& asked) {
    const auto future = Begin(context, asked);
    return future ? Finish(*future) : Given{.error = ErrorOf(future)};
  }
  Given Long(uint32_t context, const Asked& asked) {
    const uint32_t pass = Ok(ForwardPassNew(*process_, model_));
    Ok(ForwardPassContext(*process_, pass, context));
    Tokens positions;
    for (size_t i = 0; i < asked.tokens.size(); ++i) positions.push_back(Length(context) + i);
    if (!asked.tokens.empty()) Ok(Input(pass, asked.tokens, positions));
    Ok(ForwardPassLogitMask(*process_, pass, asked.mask));
    const auto row = static_cast<uint32_t>(asked.tokens.size() - 1);
    const size_t rows = asked.tokens.empty() ? 0 : 1;
    Ok(ForwardPassSampler(*process_, pass, {&row, rows}, asked.sampler));
    if (asked.seed) Ok(SamplingSeed(*process_, pass, *asked.seed));
    const auto future = ForwardPassExecute(*process_, pass);
    if (!future) return {.error = ErrorOf(future)};
    PassOutput& output = **process_->handles().outputs.Get(*future).value();
    while (!output.ready.load(std::memory_order_acquire)) std::this_thread::yield();
    if (!output.result) return {.error = output.result.error().text};
    const auto* token = std::get_if<TokenSlot>(&output.result->at(0));
    if (token == nullptr || output.result->size() > 1) return {};
    return {.token = token->token};
  }
  // The token, or the error that `problem` then tells.
  Given Repeat(uint32_t context, uint32_t token) {
    while (true) {
      Wait wait{};
      const uint32_t chosen = Ok(StepsRepeat(*process_, context, token, wait));
      if (wait.signal != nullptr) {
        std::this_thread::yield();
        continue;
      }
      const std::optional<std::string> problem = Ok(StepsProblem(*process_, context));
      EXPECT_EQ(problem.has_value(), chosen == std::numeric_limits<uint32_t>::max());
      return problem ? Given{.error = *problem} : Given{.token = chosen};
    }
  }
  // Runs the step both ways, each in its own context.
  void ExpectSame(const Asked& asked, bool fails = false) {
    const uint32_t one = NewContext(), other = NewContext();
    const Given given = Short(one, asked);
    EXPECT_EQ(given, Long(other, asked)) << given.error;
    EXPECT_EQ(!given.error.empty(), fails) << given.error;
    EXPECT_EQ(Length(one), Length(other));
  }
};

TEST_F(ApiStepTest, GivesWhatALoopOfPassesGives) {
  for (const std::optional<uint64_t> seed :
       {std::optional<uint64_t>(), std::optional<uint64_t>(7)}) {
    const uint32_t one = NewContext(), other = NewContext();
    Asked asked{.tokens = {'h', 'e', 'l', 'l', 'o'}};
    if (seed) asked.sampler = {.kind = Kind::TopP, .temperature = 1.5F, .count = 0, .p = 0.95F};
    for (uint32_t i = 0; i < 30; ++i) {
      if (seed) asked.seed = *seed + i;
      const Given given = Short(one, asked);
      ASSERT_TRUE(given.token) << given.error;
      ASSERT_EQ(given, Long(other, asked)) << i;
      ASSERT_EQ(Length(one), Length(other));
      asked.tokens = {*given.token};
    }
  }
}

TEST_F(ApiStepTest, RepeatsTheLastStep) {
  for (const std::optional<uint64_t> seed :
       {std::optional<uint64_t>(), std::optional<uint64_t>(7)}) {
    const uint32_t one = NewContext(), other = NewContext();
    Asked asked{.tokens = {'h', 'e', 'l', 'l', 'o'}, .seed = seed};
    if (seed) asked.sampler = {.kind = Kind::TopP, .temperature = 1.5F, .count = 0, .p = 0.95F};
    Given given = Short(one, asked);
    ASSERT_EQ(given, Short(other, asked));
    for (uint32_t i = 1; i < 30; ++i) {
      ASSERT_TRUE(given.token) << given.error;
      if (seed) asked.seed = *seed + i;
      asked.tokens = {*given.token};
      given = Repeat(one, *given.token);
      ASSERT_EQ(given, Short(other, asked)) << i;
      ASSERT_EQ(Length(one), Length(other));
    }
  }
}

TEST_F(ApiStepTest, TellsWhyAStepCannotBeRepeated) {
  const std::string nothing =
      "there is no step to repeat: call begin first, without a mask and with a sampler that "
      "chooses one token";
  const uint32_t context = NewContext(1);
  EXPECT_EQ(Repeat(context, 'a').error, nothing);
  EXPECT_TRUE(Short(context, {.mask = {97, 3, 162}}).token);
  EXPECT_EQ(Repeat(context, 'a').error, nothing);
  EXPECT_TRUE(Short(context, {}).token);
  EXPECT_TRUE(Repeat(context, 'a').token);
  EXPECT_EQ(Repeat(context, 262).error, Short(context, {.tokens = {262}}).error);
  EXPECT_TRUE(Repeat(context, 'a').token);
  EXPECT_EQ(Length(context), 4U);
  EXPECT_EQ(Repeat(context, 'a').error, Short(context, {}).error);  // the page is full
  EXPECT_EQ(Length(context), 4U);
  Ok(ContextDestroy(*process_, context));
  EXPECT_EQ(Repeat(context, 'a').error, Short(context, {}).error);
}

TEST_F(ApiStepTest, GivesOtherSlotsThanAToken) {
  ExpectSame({.mask = {97, 3, 162}});
  ExpectSame({.sampler = {.kind = Kind::Multinomial, .temperature = 1, .count = 4, .p = 1}});
  ExpectSame({.sampler = {.kind = Kind::Logits, .temperature = 0, .count = 0, .p = 1}});
  ExpectSame({.sampler = {.kind = Kind::Entropy, .temperature = 0, .count = 0, .p = 1}});
  ExpectSame({.sampler = {.kind = Kind::Embedding, .temperature = 0, .count = 0, .p = 1}});
}

TEST_F(ApiStepTest, RefusesWhatAPassRefuses) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  ExpectSame({.tokens = {}}, true);
  ExpectSame({.tokens = {'a', 262}}, true);
  ExpectSame({.tokens = Tokens(40'000, 'a')}, true);  // the model has 32,768 positions
  ExpectSame({.tokens = Tokens(65, 'a')}, true);      // 16 pages of 4
  ExpectSame({.mask = {262}}, true);
  ExpectSame({.sampler = {.kind = Kind::TopK, .temperature = -1, .count = 1, .p = 1}}, true);
  ExpectSame({.sampler = {.kind = Kind::TopP, .temperature = kNan, .count = 1, .p = 1}}, true);
  ExpectSame({.sampler = {.kind = Kind::TopP, .temperature = 1, .count = 1, .p = 2}}, true);
  ExpectSame({.sampler = {.kind = Kind::Multinomial, .temperature = 0, .count = ~0U, .p = 1}},
             true);
  EXPECT_EQ(Short(NewContext(), {.tokens = Tokens(400'000, 'a')}).error,
            "memory limit: an inferlet may hold 2 MiB of the engine's memory, "
            "and all inferlets of a user a share of 4096 MiB");
  const uint32_t gone = NewContext();
  Ok(ContextDestroy(*process_, gone));
  EXPECT_EQ(Short(gone, {}).error, Long(gone, {}).error);
  EXPECT_EQ(process_->handles().outputs.Get(999).error().text, Finish(999).error);
}

TEST_F(ApiStepTest, TellsWhatAPassFailedOf) {
  gate_->Hold();
  const uint32_t context = NewContext();
  const uint32_t first = Ok(Begin(context, {}));
  ASSERT_TRUE(gate_->WaitBusy());
  const uint32_t second = Ok(Begin(context, {}));
  Ok(ContextDestroy(*process_, context));
  gate_->Open();
  EXPECT_EQ(Finish(second).error, "the context was destroyed before this pass had run");
  EXPECT_TRUE(Finish(first).token);
}

// Taking the result drops the handle. A result that was taken by another call is not given again.
TEST_F(ApiStepTest, IsTakenOnce) {
  uint32_t future = 0;
  const uint32_t context = NewContext();
  future = Ok(Begin(context, {}));
  EXPECT_TRUE(Finish(future).token);
  EXPECT_NE(Finish(future).error, "");
  future = Ok(Begin(context, {}));
  EXPECT_TRUE(BecomesReady(future));
  EXPECT_EQ(Finish(future).error, "the output of this pass was taken before");
}

// A step without a seed draws as a pass without a seed does.
TEST_F(ApiStepTest, TakesADraw) {
  const uint64_t before = process_->SetDrawsAside(0);
  Short(NewContext(), {});
  Short(NewContext(), {.seed = 5});
  EXPECT_EQ(process_->SetDrawsAside(0), before + 1);
}

TEST_F(ApiStepTest, HasTheMemoryLimitOfPasses) {
  gate_->Hold();
  Asked asked{.tokens = Tokens(3'000, 'a')};
  uint32_t queued = 0;
  auto future = Begin(NewContext(750), asked);
  while (future) {
    ASSERT_LT(++queued, 1'000U);
    future = Begin(NewContext(750), asked);
  }
  // The charge is for the passes, and for the rows that their contexts keep.
  EXPECT_TRUE(ErrorOf(future).starts_with("memory limit: ")) << ErrorOf(future);
  EXPECT_GT(queued, 3U);
  gate_->Open();
}

}  // namespace
}  // namespace pie::host
