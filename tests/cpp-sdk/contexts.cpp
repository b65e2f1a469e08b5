#include "checks.h"

using namespace inferlet;

namespace {

Result<Context> Fresh() {
  return Context::New(PIE_TRY_SYNC(Model::Load(runtime::Models().front())));
}

// A turn with calls, and the answers to them, as the dummy model's template writes them.
Result<void> CheckCalls(Faults& faults) {
  const std::vector<tools::Call> calls = {{"add", R"({"y": 1, "x": 2})", "call_7"}, {"a \"b\""}};
  Context context = PIE_TRY_SYNC(Fresh());
  context.User("?").AssistantCalls("Wait.", calls);
  context.AnswerCall(calls[0], "3").AnswerCall(calls[1], "4");
  const std::string text = PIE_TRY_SYNC(context.Model().Tokenizer().Decode(context.Buffer()));
  faults.Expect(text.contains("Wait.<tool_call>\n"), text);
  faults.Expect(text.contains(R"({"name": "add", "arguments": {"y": 1, "x": 2}})"), text);
  faults.Expect(text.contains(R"({"name": "a \"b\"", "arguments": {}})"), text);
  faults.Expect(text.contains("tool\n3\n4"), text);

  Context plain = PIE_TRY_SYNC(Fresh()), listed = PIE_TRY_SYNC(Fresh());
  plain.Assistant("Yes.");
  listed.AssistantCalls("Yes.", {});
  faults.Expect(plain.Buffer() == listed.Buffer(), "a turn without calls is an ordinary turn");
  const std::vector<tools::Call> blank = {{"now", " \n"}}, empty = {{"now", "{}"}};
  Context one = PIE_TRY_SYNC(Fresh()), other = PIE_TRY_SYNC(Fresh());
  one.AssistantCalls("", blank);
  other.AssistantCalls("", empty);
  faults.Expect(one.Buffer() == other.Buffer() && !one.Buffer().empty(), "no arguments");
  return {};
}

// Calls that the engine refuses are errors of the next call that returns a Result.
Task<Result<void>> CheckRefusedCalls(Faults& faults) {
  for (const char* arguments : {"[1]", "1 + 2"}) {
    const std::vector<tools::Call> calls = {{"add", arguments}};
    Context context = PIE_TRY(Fresh());
    const Result<void> flushed = co_await context.AssistantCalls("", calls).Flush();
    faults.Expect(!flushed && flushed.error().contains("call"), arguments);
  }
  co_return {};
}

Task<Result<void>> CheckCachedTokens(Faults& faults) {
  const std::string text(200, '^');  // several pages
  for (const bool is_cached : {false, true}) {
    Context context = PIE_TRY(Fresh());
    faults.Expect(context.CachedTokens() == 0, "before a pass");
    PIE_TRY(co_await context.AppendText(text).Flush());
    if (is_cached) faults.Expect(context.CachedTokens() > 0, "the same text again");
    faults.Expect(PIE_TRY(context.Fork()).CachedTokens() == 0, "a fork");
  }
  co_return {};
}

// The SDK counts the pages of a context while a generator steps. What else changes the context must
// not escape it: a fork asks the engine.
Task<Result<void>> CheckCountedPages(Faults& faults) {
  for (const bool is_lent : {false, true}) {
    Context context = PIE_TRY(Fresh());
    const raw::Context* const inner = is_lent ? &context.Inner() : nullptr;
    context.Append({97});
    Generator generator = context.Generate(Sampler::Argmax());
    generator.MaxTokens(90).IgnoreEos();
    for (size_t i = 0; auto step = PIE_TRY(generator.Next()); ++i) {
      PIE_TRY(co_await step->Execute());
      const auto expect_counted = [&](std::string when) -> Result<void> {
        const uint32_t length = PIE_TRY_SYNC(context.Fork()).SeqLen();
        faults.Expect(context.SeqLen() == length, when + " " + std::to_string(i));
        return {};
      };
      PIE_TRY(expect_counted("after step"));
      if (i % 9 == 3) PIE_TRY(context.Truncate(1));
      if (i % 9 == 5) PIE_TRY(co_await context.AppendText("xy").Flush());
      if (i % 9 == 5) context.Append({98});
      if (i % 9 == 7) {
        const std::vector<uint32_t> tokens = {99, 100}, positions = {0, 1};
        Forward forward = context.Forward();
        forward.InputAt(tokens, positions);
        PIE_TRY(co_await forward.Execute());
      }
      if (inner != nullptr && i % 9 == 8) (void)inner->ReserveWorkingPages(1);
      PIE_TRY(expect_counted("behind step"));
    }
    faults.Expect(generator.TokensGenerated() == 90, "all tokens");
  }
  co_return {};
}

}  // namespace

Task<Result<void>> CheckContexts(Faults& faults) {
  PIE_TRY(CheckCalls(faults));
  PIE_TRY(co_await CheckRefusedCalls(faults));
  PIE_TRY(co_await CheckCachedTokens(faults));
  PIE_TRY(co_await CheckCountedPages(faults));
  co_return {};
}
