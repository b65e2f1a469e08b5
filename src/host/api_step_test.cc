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
    uint32_t context = 0;
    Ok(ContextCreate(guest(), model_, &context, out_));
    Ok(ContextReserveWorkingPages(guest(), context, pages, out_));
    return context;
  }
  uint32_t Length(uint32_t context) {
    return (*process_->handles().contexts.Get(context))->tokens();
  }
  bool Begin(uint32_t context, const Asked& asked, uint32_t* future) {
    return StepBegin(guest(), context, {asked.tokens.data(), asked.tokens.size()},
                     {asked.mask.data(), asked.mask.size()}, asked.seed ? &*asked.seed : nullptr,
                     &asked.sampler, future, out_);
  }
  Given Finish(uint32_t future) {
    Given given;
    const pie_bridge::Signal* signal = nullptr;
    bool is_token = false;
    uint32_t token = 0;
    do {
      std::this_thread::yield();
      signal = nullptr;
      if (!StepFinish(guest(), future, &signal, &is_token, &token, out_)) return {.error = text()};
    } while (signal != nullptr);
    if (is_token) given.token = token;
    return given;
  }
  Given Short(uint32_t context, const Asked& asked) {
    uint32_t future = 0;
    if (!Begin(context, asked, &future)) return {.error = text()};
    return Finish(future);
  }
  Given Long(uint32_t context, const Asked& asked) {
    uint32_t pass = 0, future = 0;
    Ok(PassNew(guest(), model_, &pass, out_));
    Ok(PassContext(guest(), pass, context, out_));
    Tokens positions;
    for (size_t i = 0; i < asked.tokens.size(); ++i) positions.push_back(Length(context) + i);
    if (!asked.tokens.empty()) Ok(Input(pass, asked.tokens, positions));
    Ok(PassLogitMask(guest(), pass, {asked.mask.data(), asked.mask.size()}, out_));
    const auto row = static_cast<uint32_t>(asked.tokens.size() - 1);
    const size_t rows = asked.tokens.empty() ? 0 : 1;
    Ok(PassSampler(guest(), pass, {&row, rows}, &asked.sampler, out_));
    if (asked.seed) Ok(PassSeed(guest(), pass, *asked.seed, out_));
    if (!PassExecute(guest(), pass, &future, out_)) return {.error = text()};
    PassOutput& output = **process_->handles().outputs.Get(future).value();
    while (!output.ready.load(std::memory_order_acquire)) std::this_thread::yield();
    if (!output.result) return {.error = output.result.error().text};
    const auto* token = std::get_if<TokenSlot>(&output.result->at(0));
    if (token == nullptr || output.result->size() > 1) return {};
    return {.token = token->token};
  }
  // Both ways, each in a context of its own.
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

TEST_F(ApiStepTest, GivesOtherSlotsThanAToken) {
  ExpectSame({.mask = {97, 3, 162}});
  ExpectSame({.sampler = {.kind = Kind::Multinomial, .temperature = 1, .count = 4, .p = 1}});
  ExpectSame({.sampler = {.kind = Kind::Logits, .temperature = 0, .count = 0, .p = 1}});
  ExpectSame({.sampler = {.kind = Kind::Entropy, .temperature = 0, .count = 0, .p = 1}});
}

TEST_F(ApiStepTest, RefusesWhatAPassRefuses) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  ExpectSame({.tokens = {}}, true);
  ExpectSame({.tokens = {'a', 262}}, true);
  ExpectSame({.tokens = Tokens(65, 'a')}, true);  // 16 pages of 4
  ExpectSame({.mask = {262}}, true);
  ExpectSame({.sampler = {.kind = Kind::TopK, .temperature = -1, .count = 1, .p = 1}}, true);
  ExpectSame({.sampler = {.kind = Kind::TopP, .temperature = kNan, .count = 1, .p = 1}}, true);
  ExpectSame({.sampler = {.kind = Kind::TopP, .temperature = 1, .count = 1, .p = 2}}, true);
  ExpectSame({.sampler = {.kind = Kind::Embedding, .temperature = 0, .count = 1, .p = 1}}, true);
  ExpectSame({.sampler = {.kind = Kind::Multinomial, .temperature = 0, .count = ~0U, .p = 1}},
             true);
  // What would trap in the middle of a pass that is built is an error here.
  EXPECT_EQ(Short(NewContext(), {.tokens = Tokens(1'001, 'a')}).error,
            "a pass has at most 1000 input tokens");
  const uint32_t gone = NewContext();
  Ok(ContextDestroy(guest(), gone, out_));
  EXPECT_EQ(Short(gone, {}).error, Long(gone, {}).error);
  EXPECT_EQ(process_->handles().outputs.Get(999).error().text, Finish(999).error);
}

TEST_F(ApiStepTest, TellsWhatAPassFailedOf) {
  gate_->Hold();
  const uint32_t context = NewContext();
  uint32_t first = 0, second = 0;
  Ok(Begin(context, {}, &first));
  ASSERT_TRUE(gate_->WaitBusy());
  Ok(Begin(context, {}, &second));
  Ok(ContextDestroy(guest(), context, out_));
  gate_->Open();
  EXPECT_EQ(Finish(second).error, "the context was destroyed before this pass had run");
  EXPECT_TRUE(Finish(first).token);
}

// The handle goes with the result; what is taken otherwise is not given again.
TEST_F(ApiStepTest, IsTakenOnce) {
  uint32_t future = 0;
  const uint32_t context = NewContext();
  Ok(Begin(context, {}, &future));
  EXPECT_TRUE(Finish(future).token);
  EXPECT_NE(Finish(future).error, "");
  Ok(Begin(context, {}, &future));
  EXPECT_TRUE(BecomesReady(future));
  EXPECT_EQ(Finish(future).error, "what this pass gave was taken before");
}

// As a pass without a seed does.
TEST_F(ApiStepTest, TakesADraw) {
  const uint64_t before = process_->SetDrawsAside(0);
  Short(NewContext(), {});
  Short(NewContext(), {.seed = 5});
  EXPECT_EQ(process_->SetDrawsAside(0), before + 1);
}

TEST_F(ApiStepTest, HasTheMemoryLimitOfPasses) {
  gate_->Hold();
  Asked asked{.tokens = Tokens(1'000, 'a')};
  uint32_t future = 0, queued = 0;
  while (Begin(NewContext(250), asked, &future)) ASSERT_LT(++queued, 1'000U);
  EXPECT_EQ(text(), "memory limit: the passes and unread results of an inferlet have 1 MiB");
  EXPECT_GT(queued, 50U);
  gate_->Open();
}

}  // namespace
}  // namespace pie::host
