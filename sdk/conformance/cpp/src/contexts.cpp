// Cases about contexts, clones and snapshots.
#include "cases.h"

using namespace inferlet;

namespace {

Task<Result<Json>> ContextCase(const Json& input) {
  Model model = PIE_TRY(FirstModel());
  Context context = PIE_TRY(Context::New(model));
  context.Append(model.Tokenizer().Encode(PIE_TRY(input.Get<std::string>("text"))));
  const size_t buffered = context.Buffer().size();
  const uint32_t before = context.SeqLen();
  PIE_TRY(co_await context.Flush());
  const uint32_t after = context.SeqLen();
  PIE_TRY(context.Truncate(2));
  co_return Json::Object({{"page_size", context.PageSize()},
                          {"buffered", buffered},
                          {"before", before},
                          {"after", after},
                          {"truncated", context.SeqLen()}});
}

Task<Result<Json>> FlushEmpty(const Json&) {
  Context context = PIE_TRY(Context::New(PIE_TRY(FirstModel())));
  PIE_TRY(co_await context.Flush());
  co_return Json::Object({{"seq_len", context.SeqLen()}});
}

std::string TextOf(const Json& step, std::string_view key) {
  return step.Get<std::string>(key).value_or("");
}

std::vector<tools::Call> CallsOf(const Json& step) {
  std::vector<tools::Call> calls;
  for (const Json& call : step["calls"].ItemList()) {
    calls.push_back({TextOf(call, "name"), TextOf(call, "arguments"), TextOf(call, "id")});
  }
  return calls;
}

Task<Result<Json>> TurnsCase(const Json& input) {
  Context context = PIE_TRY(Context::New(PIE_TRY(FirstModel())));
  std::vector<uint32_t> tokens;
  for (const Json& step : PIE_TRY(input.Get<std::vector<Json>>("script"))) {
    const std::string what = PIE_TRY(step.Get<std::string>("do"));
    const std::string text = TextOf(step, "text");
    if (what == "system") {
      context.System(text);
    } else if (what == "user") {
      context.User(text);
    } else if (what == "assistant") {
      context.Assistant(text);
    } else if (what == "tools") {
      PIE_TRY(context.EquipTools(PIE_TRY(step.Get<std::vector<std::string>>("tools"))));
    } else if (what == "answer") {
      context.AnswerTool(TextOf(step, "name"), text);
    } else if (what == "calls") {
      context.AssistantCalls(text, CallsOf(step));
    } else if (what == "answer_call") {
      context.AnswerCall(CallsOf(step).at(0), text);
    } else if (what == "cue") {
      context.Cue();
    } else if (what == "seal") {
      context.Seal();
    } else if (what == "append") {
      context.Append(PIE_TRY(step.Get<std::vector<uint32_t>>("tokens")));
    } else if (what == "fork") {
      context = PIE_TRY(context.Fork());
    } else {
      tokens.insert(tokens.end(), context.Buffer().begin(), context.Buffer().end());
      PIE_TRY(co_await context.Flush());
    }
  }
  tokens.insert(tokens.end(), context.Buffer().begin(), context.Buffer().end());
  co_return Json(tokens);
}

Task<Result<Json>> TemplateOption(const Json& input) {
  const Model model = PIE_TRY(FirstModel());
  const auto name = PIE_TRY(input.Get<std::string>("name"));
  const auto text = PIE_TRY(input.Get<std::string>("text"));
  PIE_TRY(model.TemplateOption(name, input["value"]));
  Context with = PIE_TRY(Context::New(model));
  std::vector<uint32_t> tokens = with.User(text).Cue().Buffer();
  PIE_TRY(model.TemplateOption(name, nullptr));
  Context without = PIE_TRY(Context::New(model));
  const size_t before = without.User(text).Cue().Buffer().size();
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(before));
  co_return Json::Object(
      {{"added", PIE_TRY(model.Tokenizer().Decode(tokens))},
       {"refused", !model.TemplateOption("messages", true).has_value()},
       {"unknown", model.TemplateOption("no_such_variable", "text").has_value()}});
}

Task<Result<Json>> CachedTokens(const Json& input) {
  Model model = PIE_TRY(FirstModel());
  const auto tokens = model.Tokenizer().Encode(PIE_TRY(input.Get<std::string>("text")));
  Context first = PIE_TRY(Context::New(model)), second = PIE_TRY(Context::New(model));
  PIE_TRY(co_await first.Append(tokens).Flush());
  const uint64_t fresh = second.CachedTokens();
  PIE_TRY(co_await second.Append(tokens).Flush());
  const Context fork = PIE_TRY(second.Fork());
  co_return Json::Object(
      {{"fresh", fresh}, {"found", second.CachedTokens() > 0}, {"fork", fork.CachedTokens()}});
}

Task<Result<std::vector<uint32_t>>> Greedy(Context& context, size_t max_tokens) {
  return context.Cue().Generate(Sampler::Argmax()).MaxTokens(max_tokens).CollectTokens();
}

Task<Result<Context>> Flushed(const Json& input) {
  Context context = PIE_TRY(Context::New(PIE_TRY(FirstModel())));
  context.User(PIE_TRY(input.Get<std::string>("prompt")));
  PIE_TRY(co_await context.Flush());
  co_return context;
}

Task<Result<Json>> Fork(const Json& input) {
  const auto max_tokens = PIE_TRY(input.Get<size_t>("max_tokens"));
  Context parent = PIE_TRY(co_await Flushed(input));
  Context fork = PIE_TRY(parent.Fork());
  auto [ours, theirs] = co_await WhenAll(Greedy(parent, max_tokens), Greedy(fork, max_tokens));
  const bool same = PIE_TRY(std::move(ours)) == PIE_TRY(std::move(theirs));
  PIE_TRY(co_await fork.Append({97}).Flush());
  co_return Json::Object(
      {{"same", same}, {"parent_len", parent.SeqLen()}, {"fork_len", fork.SeqLen()}});
}

Task<Result<Json>> ForkParallel(const Json& input) {
  const auto n = PIE_TRY(input.Get<uint32_t>("n"));
  const auto max_tokens = PIE_TRY(input.Get<size_t>("max_tokens"));
  Context parent = PIE_TRY(co_await Flushed(input));
  std::vector<Task<Result<std::vector<uint32_t>>>> branches;
  for (uint32_t i = 0; i < n; ++i) {
    Context fork = PIE_TRY(parent.Fork());
    branches.push_back(Greedy(fork.Append({97 + i}), max_tokens));
  }
  co_return PIE_TRY(Collect(co_await WhenAll(std::move(branches))));
}

// The token that greedily follows token 97, which the context then forgets.
Task<Result<std::optional<uint32_t>>> NextToken(Context& context) {
  Forward forward = context.Forward();
  forward.InputAt({{97u}}, {{forward.StartPosition()}});
  const SampleHandle handle = forward.Sample({0}, Sampler::Argmax());
  const Output out = PIE_TRY(co_await forward.Execute());
  co_return out.Token(handle);
}

Task<Result<Json>> Released(const Json& input) {
  const auto text = PIE_TRY(input.Get<std::string>("text"));
  Context context = PIE_TRY(Context::New(PIE_TRY(FirstModel())));
  PIE_TRY(co_await context.AppendText(text).Flush());
  context.Release();
  std::vector<std::string> failed;
  const auto use = [&](std::string name, const auto& result) {
    if (!result && result.error().contains("released")) failed.push_back(std::move(name));
  };
  use("fill", co_await context.User(text).Flush());
  use("flush", co_await context.Flush());
  use("fork", context.Fork());
  use("save", context.Save("released"));
  use("snapshot", context.Snapshot());
  use("truncate", context.Truncate(1));
  use("bid", context.SetBid(1));
  use("generate", co_await context.Generate(Sampler::Argmax()).MaxTokens(1).CollectTokens());
  Forward forward = context.Forward();
  use("forward", co_await forward.Input({{97u}}).Execute());
  co_return failed;
}

Task<Result<Json>> Forgotten(const Json& input) {
  const Model model = PIE_TRY(FirstModel());
  const auto n = PIE_TRY(input.Get<uint32_t>("n"));
  for (uint32_t i = 0; i < n; ++i) {
    Context context = PIE_TRY(Context::New(model));
    PIE_TRY(co_await context.Flush());
  }
  co_return n;
}

Task<Result<Json>> Keep(const Json& input) {
  Model model = PIE_TRY(FirstModel());
  Context context = PIE_TRY(Context::New(model));
  context.Append(model.Tokenizer().Encode(PIE_TRY(input.Get<std::string>("text"))));
  PIE_TRY(co_await context.Flush());
  PIE_TRY(context.Save(PIE_TRY(input.Get<std::string>("name"))));
  co_return context.SeqLen();
}

Task<Result<Json>> OpenNamed(const Json& input) {
  const auto name = PIE_TRY(input.Get<std::string>("name"));
  co_return PIE_TRY(Context::Open(PIE_TRY(FirstModel()), name)).SeqLen();
}

Task<Result<Json>> SaveOpen(const Json& input) {
  const auto name = PIE_TRY(input.Get<std::string>("name"));
  Model model = PIE_TRY(FirstModel());
  Context context = PIE_TRY(Context::New(model));
  context.Append(model.Tokenizer().Encode(PIE_TRY(input.Get<std::string>("text"))));
  PIE_TRY(co_await context.Flush());

  PIE_TRY(context.Save(name));
  Context copy = PIE_TRY(Context::Open(model, name));
  const bool same_len = copy.SeqLen() == context.SeqLen();
  const auto copys = PIE_TRY(co_await NextToken(copy));
  const auto ours = PIE_TRY(co_await NextToken(context));
  const bool missing = !Context::Open(model, name + "-missing");
  Context taken = PIE_TRY(Context::Take(model, name));
  const bool taken_missing =
      taken.SeqLen() == context.SeqLen() && !Context::Open(model, name).has_value();
  const std::string snapshot = PIE_TRY(context.Snapshot());
  PIE_TRY(Context::Delete(model, snapshot));
  co_return Json::Object({{"same_len", same_len},
                          {"same_token", copys == ours},
                          {"missing", missing},
                          {"taken_missing", taken_missing},
                          {"named", !snapshot.empty()}});
}

Task<Result<Json>> Rollback(const Json& input) {
  const auto n = PIE_TRY(input.Get<uint32_t>("n"));
  Model model = PIE_TRY(FirstModel());
  const auto tokens = model.Tokenizer().Encode(PIE_TRY(input.Get<std::string>("text")));
  Context context = PIE_TRY(Context::New(model));
  PIE_TRY(co_await context.Append(tokens).Flush());
  Context fork = PIE_TRY(context.Fork());
  const auto before = PIE_TRY(co_await NextToken(context));
  PIE_TRY(context.Truncate(n));
  const uint32_t length = context.SeqLen();
  PIE_TRY(co_await context.Append(std::span(tokens).last(n)).Flush());
  const bool same =
      context.SeqLen() == tokens.size() && PIE_TRY(co_await NextToken(context)) == before;
  const bool fork_same =
      fork.SeqLen() == tokens.size() && PIE_TRY(co_await NextToken(fork)) == before;
  co_return Json::Object({{"length", length}, {"same", same}, {"fork_same", fork_same}});
}

Task<Result<Json>> SaveBuffered(const Json& input) {
  const auto name = PIE_TRY(input.Get<std::string>("name"));
  Model model = PIE_TRY(FirstModel());
  const auto tokens = model.Tokenizer().Encode(PIE_TRY(input.Get<std::string>("text")));
  Context context = PIE_TRY(Context::New(model)), whole = PIE_TRY(Context::New(model));
  PIE_TRY(co_await whole.Append(tokens).Flush());
  PIE_TRY(context.Append(tokens).Save(name));
  Context saved = PIE_TRY(Context::Take(model, name));
  const bool same = saved.SeqLen() == whole.SeqLen() && saved.Buffer().empty();
  const auto savers = PIE_TRY(co_await NextToken(saved));
  const auto ours = PIE_TRY(co_await NextToken(whole));
  co_return Json::Object({{"same", same && savers == ours},
                          {"untouched", context.SeqLen() == 0 && context.Buffer() == tokens}});
}

}  // namespace

Cases ContextCases() {
  return {{"context", ContextCase},
          {"flush_empty", FlushEmpty},
          {"turns", TurnsCase},
          {"template_option", TemplateOption},
          {"cached_tokens", CachedTokens},
          {"fork", Fork},
          {"fork_parallel", ForkParallel},
          {"save_open", SaveOpen},
          {"forgotten", Forgotten},
          {"keep", Keep},
          {"open_named", OpenNamed},
          {"released", Released},
          {"rollback", Rollback},
          {"save_buffered", SaveBuffered}};
}
