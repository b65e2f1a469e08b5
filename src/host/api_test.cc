// Tests host calls as the bridge makes them, on a process without a guest: cases that a component
// can hardly cause (a pass whose context is dropped, limits at their edge).
#include "host/api.h"

#include <gtest/gtest.h>

#include "host/answer.h"
#include "host/api_testing.h"
#include "host/host_table.h"

namespace pie::host {
namespace {

// Calls as the bridge makes them: over the C ABI, with a reply.
TEST_F(ApiTest, TruncatedRowsAreNotChargedForTheirMasks) {
  const auto run = [&](uint32_t first) {
    const uint32_t pass = Ok(ForwardPassNew(*process_, model_));
    Ok(ForwardPassContext(*process_, pass, context_));
    Ok(Input(pass, {'a', 'b', 'c'}, {first, first + 1, first + 2}));
    const std::vector<uint32_t> mask = {1, 1, 0, first + 1};  // hides the first token
    const std::vector<pie_bridge::List<uint32_t>> rows(3, {mask.data(), mask.size()});
    Ok(ForwardPassAttentionMask(*process_, pass, rows));
    EXPECT_TRUE(BecomesReady(Ok(ForwardPassExecute(*process_, pass))));
  };
  const Context& context = *Ok(process_->handles().contexts.Get(context_));
  EXPECT_EQ(context.mask_bytes(), 0u);
  run(0);
  const size_t three = context.mask_bytes();
  EXPECT_GE(three, 3 * sizeof(Brle));
  run(3);
  const size_t six = context.mask_bytes();
  EXPECT_GE(six, three + 3 * sizeof(Brle));
  Ok(ContextTruncateWorkingPageTokens(*process_, context_, 2));
  EXPECT_LT(context.mask_bytes(), six);
  EXPECT_GT(context.mask_bytes(), three);
  Ok(ContextTruncateWorkingPageTokens(*process_, context_, 1));
  EXPECT_EQ(context.mask_bytes(), three);
  const uint32_t fork = Ok(ContextFork(*process_, context_));
  EXPECT_EQ(Ok(process_->handles().contexts.Get(fork))->mask_bytes(), three);
  Ok(ContextTruncateWorkingPageTokens(*process_, fork, 3));
  EXPECT_EQ(Ok(process_->handles().contexts.Get(fork))->mask_bytes(), 0u);
  EXPECT_EQ(context.mask_bytes(), three);
}

TEST_F(ApiTest, TableAnswersOverTheAbi) {
  pie_bridge::Reply* reply = pie_bridge::pie_reply_new();
  void* guest = static_cast<wasm::Guest*>(process_.get());
  uint32_t page_tokens = 0;
  EXPECT_TRUE(HostFunctions().context_tokens_per_page(guest, context_, &page_tokens, reply));
  EXPECT_EQ(page_tokens, 4u);
  EXPECT_FALSE(HostFunctions().context_tokens_per_page(guest, 77, &page_tokens, reply));
  EXPECT_EQ(View(pie_bridge::pie_reply_read_error(reply)), "no context has handle 77");
  pie_bridge::pie_reply_free(reply);
}

// Nothing that a host function throws may reach the bridge: it would end the engine.
TEST_F(ApiTest, ExceptionsBecomeErrors) {
  pie_bridge::Reply* reply = pie_bridge::pie_reply_new();
  void* guest = static_cast<wasm::Guest*>(process_.get());
  const auto error = [&](auto body) {
    EXPECT_FALSE(Answer(guest, reply, body));
    return std::string(View(pie_bridge::pie_reply_read_error(reply)));
  };
  EXPECT_EQ(error([](Process&) -> Status { throw std::length_error("too long"); }), "too long");
  EXPECT_EQ(error([](Process&) -> Result<std::string> { throw 1; }),
            "a host function failed for an unknown reason (a bug in Pie)");
  EXPECT_EQ(error([](Process&) -> Status { return Fail(Code::kInvalid, "no"); }), "no");
  pie_bridge::pie_reply_free(reply);
}

TEST_F(ApiTest, ResultIsGivenOnce) {
  const uint32_t pass = NewPass();
  Sample(pass, pie_bridge::SamplerKind::TopK);
  const uint32_t future = Ok(ForwardPassExecute(*process_, pass));
  EXPECT_TRUE(BecomesReady(future));
  EXPECT_FALSE(Ready(future));
  EXPECT_EQ(Ok(OutcomeFailure(*process_, future)), std::nullopt);
}

// If the pass were not ended with its context, the guest would wait for ever.
TEST_F(ApiTest, PassWhoseContextIsDestroyedFails) {
  gate_->Hold();
  Ok(ForwardPassExecute(*process_, NewPass()));
  ASSERT_TRUE(gate_->WaitBusy());
  const uint32_t second = Ok(ForwardPassExecute(*process_, NewPass()));
  Ok(ContextDestroy(*process_, context_));
  gate_->Open();
  EXPECT_TRUE(BecomesReady(second));
  EXPECT_EQ(Ok(OutcomeFailure(*process_, second)),
            "the context was destroyed before this pass had run");
}

// A pass that makes no sense is refused before it can cost the context.
TEST_F(ApiTest, FaultyPassLeavesItsContextWhole) {
  uint32_t pass = NewPass();
  const uint32_t nothing[] = {262};  // a mask that allows no token of the 262
  Ok(ForwardPassLogitMask(*process_, pass, nothing));
  EXPECT_EQ(ErrorOf(ForwardPassExecute(*process_, pass)),
            "the logit mask allows no token: allow at least one");

  EXPECT_EQ(ErrorOf(ForwardPassExecute(*process_, NewPass({999}))),
            "token 999 is not in the vocabulary, whose ids are 0 to 261");

  pass = NewPass();
  Sample(pass, pie_bridge::SamplerKind::TopK, 1, {1});
  EXPECT_EQ(ErrorOf(ForwardPassExecute(*process_, pass)),
            "a sampler reads row 1, but the input has 1 tokens");

  const uint32_t future = Ok(ForwardPassExecute(*process_, NewPass()));
  EXPECT_TRUE(engine_->models()[0].scheduler->WaitIdle(5000));
  EXPECT_EQ(Ok(OutcomeFailure(*process_, future)), std::nullopt);
}

// The row may be the last of a page that is shared, or have a position of its own.
TEST_F(ApiTest, PassWithoutInputReadsTheLastRow) {
  const auto chosen = [this](uint32_t pass) -> std::optional<uint32_t> {
    const uint32_t future = Ok(ForwardPassExecute(*process_, pass));
    EXPECT_TRUE(engine_->models()[0].scheduler->WaitIdle(5000));
    const auto output = Ok(FutureOutputGet(*process_, future));
    const auto* token = output && output->slots.size() == 1
                            ? std::get_if<TokenSlot>(output->slots.data())
                            : nullptr;
    return token != nullptr ? std::optional(token->token) : std::nullopt;
  };
  const auto without_input = [this] {
    const uint32_t pass = Ok(ForwardPassNew(*process_, model_));
    Ok(ForwardPassContext(*process_, pass, context_));
    Sample(pass, pie_bridge::SamplerKind::TopK);
    return pass;
  };
  EXPECT_NE(ErrorOf(ForwardPassExecute(*process_, without_input())).find("empty input"),
            std::string::npos);
  for (uint32_t position = 0; position < 9; ++position) {
    Ok(ContextReserveWorkingPages(*process_, context_, 1));
    const uint32_t pass = Ok(ForwardPassNew(*process_, model_));
    Ok(ForwardPassContext(*process_, pass, context_));
    Ok(Input(pass, {'a' + position}, {2 * position}));
    Sample(pass, pie_bridge::SamplerKind::TopK);
    const auto first = chosen(pass);
    ASSERT_TRUE(first);
    const uint32_t pages = Ok(ContextWorkingPageTokenCount(*process_, context_)) / 4;
    Ok(ContextCommitWorkingPages(*process_, context_, pages));
    const uint32_t tokens = Ok(ContextWorkingPageTokenCount(*process_, context_));
    EXPECT_EQ(chosen(without_input()), first) << "at " << position;
    EXPECT_EQ(Ok(ContextWorkingPageTokenCount(*process_, context_)), tokens);
  }
}

TEST_F(ApiTest, PassIsExecutedOnce) {
  const uint32_t pass = NewPass();
  Ok(ForwardPassExecute(*process_, pass));
  EXPECT_EQ(ErrorOf(ForwardPassExecute(*process_, pass)),
            "this pass was executed already; make a new one");
}

TEST_F(ApiTest, RefusalsComeFromExecute) {
  uint32_t pass = NewPass();
  Sample(pass, pie_bridge::SamplerKind::Multinomial, UINT32_MAX);
  EXPECT_NE(ErrorOf(ForwardPassExecute(*process_, pass)).find("a pass gives at most 65536 slots"),
            std::string::npos);

  pass = Ok(ForwardPassNew(*process_, model_));
  EXPECT_NE(ErrorOf(ForwardPassExecute(*process_, pass)).find("empty input"), std::string::npos);

  pass = NewPass();
  Ok(Input(pass, {'a', 'b', 'c'}, {1, 2}));
  Ok(Input(pass, {'a', 'b'},
           {3, 4, 5}));  // five numbers in all, but not one position for each token
  EXPECT_EQ(ErrorOf(ForwardPassExecute(*process_, pass)),
            "2 positions for 3 tokens: give one position for each token");

  pass = NewPass();
  Ok(ZoAdapterSeed(*process_, pass, 7));
  EXPECT_NE(ErrorOf(ForwardPassExecute(*process_, pass)).find("adapter"), std::string::npos);
}

// The memory of a guest's passes in the engine is limited, and is given back.
TEST_F(ApiTest, PassesHaveAMemoryLimit) {
  const std::vector<uint32_t> many(1'000, 'a'), positions(1'000);
  std::vector<uint32_t> passes;
  std::string refusal;
  for (int i = 0; i < 500 && refusal.empty(); ++i) {
    const auto pass = ForwardPassNew(*process_, model_);
    if (!pass) {
      refusal = ErrorOf(pass);
      break;
    }
    passes.push_back(*pass);
    Ok(Input(*pass, many, positions));
    const std::string error = ErrorOf(ForwardPassExecute(*process_, *pass));
    if (error.find("memory limit") != std::string::npos) refusal = error;
  }
  EXPECT_EQ(refusal,
            "memory limit: an inferlet may hold 2 MiB of the engine's memory, "
            "and all inferlets of a user a share of 4096 MiB");
  EXPECT_GT(passes.size(), 100u);
  for (uint32_t pass : passes) Ok(ForwardPassDrop(*process_, pass));
  Ok(ForwardPassExecute(*process_, NewPass()));
}

TEST_F(ApiTest, SamplersWithoutRowsCountToo) {
  const uint32_t pass = NewPass();
  for (int i = 0; i < 40'000; ++i) Sample(pass, pie_bridge::SamplerKind::TopK, 1, {});
  EXPECT_NE(ErrorOf(ForwardPassExecute(*process_, pass)).find("memory limit"), std::string::npos);
}

TEST_F(ApiTest, NamesOfModelsAndListsOfTurnsHaveALimit) {
  const auto model = ModelLoad(*process_, std::string(5'000, 'x'));
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().text.find("at most 4096"), std::string::npos) << model.error().text;
  const std::vector<TurnsKind> before(5'000, TurnsKind::User);
  const auto tokens = TurnsExtend(*process_, model_, before, {});
  ASSERT_FALSE(tokens);
  EXPECT_EQ(tokens.error().text, "5000 turns come before; at most 4096 are allowed");
}

TEST_F(ApiTest, LaunchNamesWhatIsMissing) {
  EXPECT_EQ(
      ErrorOf(Waited([&](Wait& wait) { return RuntimeLaunch(*process_, "nobody", "{}", wait); })),
      "no program is named 'nobody'; install it first");
}

TEST_F(ApiTest, WhatIsNotThereCannotBeWaitedFor) {
  EXPECT_EQ(ErrorOf(FutureOutputPollable(*process_, 77)), "no output has handle 77");
  EXPECT_EQ(ErrorOf(ChainDrop(*process_, 77)), "no chain has handle 77");
}

}  // namespace
}  // namespace pie::host
