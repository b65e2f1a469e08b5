// Grammars and matchers: part of pie:core/inference, and pie:plus/constraints.
//
// Sources are checked and compiled by threads of the engine; a grammar that is compiled already
// gives a matcher at once.
#include <algorithm>

#include "host/api.h"
#include "host/await.h"
#include "host/execute.h"

namespace pie::host {
namespace {

constexpr size_t kMatchersPerPass = 16;

// Checks a source on another thread.
template <class Make>
Result<uint32_t> MakeGrammar(Process& process, std::string_view source, Make make, Wait& wait) {
  auto grammar =
      PIE_TRY(Await<Grammar>(process, wait, [&]() -> Result<std::shared_ptr<Pending<Grammar>>> {
        Charge charge = process.NewCharge();  // for the copy, until it is checked
        if (!charge.Grow(source.size())) return PassMemoryLimit(process);
        return RunGrammarWork<Grammar>(
            process,
            [make, text = std::string(source), charge = std::move(charge)] { return make(text); });
      }));
  return grammar ? InsertGrammar(process, *std::move(grammar)) : 0;
}

// Returns the name of a grammar for errors: the beginning of its source.
std::string NameOf(const Grammar& grammar) {
  constexpr size_t kLength = 60;
  const std::string_view source = grammar.source();
  std::string name;
  for (const char c : source.substr(0, kLength)) name += c == '\n' ? ' ' : c;
  if (source.size() > kLength) name += "…";
  return fmt::format("the grammar '{}'", name);
}

Result<GuestMatcher*> MatcherOf(Process& process, uint32_t handle) {
  GuestMatcher& guest = **PIE_TRY(process.handles().matchers.Get(handle));
  PIE_RETURN_IF_ERROR(guest.CatchUp());
  return &guest;
}

}  // namespace

Result<uint32_t> InsertMatcher(Process& process, Matcher matcher, std::string name) {
  auto compiled = process.ChargeForGrammar(matcher);
  Charge charge = process.NewCharge();
  if (!compiled || !charge.Grow(BytesOf(matcher))) return PassMemoryLimit(process);
  return process.handles().matchers.Emplace(std::make_shared<GuestMatcher>(
      std::move(matcher), std::move(name), std::move(charge), std::move(compiled)));
}

Result<uint32_t> InsertGrammar(Process& process, Grammar grammar) {
  Charge charge = process.NewCharge();
  const size_t bytes = grammar.bytes();
  if (!charge.Grow(bytes - std::min(bytes, kGrammarBytes))) return PassMemoryLimit(process);
  return process.handles().grammars.Emplace(std::move(grammar), std::move(charge));
}

Result<uint32_t> NewMatcher(Process& process, const Grammar& grammar, uint32_t model, Wait& wait) {
  const GrammarVocabulary& vocabulary = *process.engine().models()[model].vocabulary;
  if (!wait.has_ticket) {
    if (auto matcher = Matcher::OfCompiled(vocabulary, grammar)) {
      return InsertMatcher(process, *std::move(matcher), NameOf(grammar));
    }
  }
  auto matcher =
      PIE_TRY(Await<Matcher>(process, wait, [&]() -> Result<std::shared_ptr<Pending<Matcher>>> {
        // The queue may keep the grammar when the guest and its handle of the grammar are gone.
        Charge charge = process.NewCharge();
        if (!charge.Grow(grammar.bytes())) return PassMemoryLimit(process);
        return RunGrammarWork<Matcher>(process, [vocabulary, grammar, user = process.user()->name,
                                                 charge = std::move(charge)] {
          return Matcher::Make(vocabulary, grammar, user);
        });
      }));
  return matcher ? InsertMatcher(process, *std::move(matcher), NameOf(grammar)) : 0;
}

Result<uint32_t> GrammarFromJsonSchema(Process& process, std::string_view schema, Wait& wait) {
  return MakeGrammar(process, schema, Grammar::FromJsonSchema, wait);
}
Result<uint32_t> GrammarJson(Process& process) {
  return InsertGrammar(process, PIE_TRY(Grammar::Json()));
}
Result<uint32_t> GrammarFromRegex(Process& process, std::string_view pattern, Wait& wait) {
  return MakeGrammar(process, pattern, Grammar::FromRegex, wait);
}
Result<uint32_t> GrammarFromEbnf(Process& process, std::string_view source, Wait& wait) {
  const auto make = [user = process.user()->name](std::string_view text) {
    return Grammar::FromEbnf(text, user);
  };
  return MakeGrammar(process, source, make, wait);
}
Result<std::string> GrammarToString(Process& process, uint32_t grammar) {
  return std::string(PIE_TRY(process.handles().grammars.Get(grammar))->grammar.source());
}
Status GrammarDrop(Process& process, uint32_t grammar) {
  process.handles().grammars.Remove(grammar);
  return {};
}

Result<uint32_t> MatcherNew(Process& process, uint32_t grammar, uint32_t tokenizer, Wait& wait) {
  const Grammar& source = PIE_TRY(process.handles().grammars.Get(grammar))->grammar;
  return NewMatcher(process, source, *PIE_TRY(process.handles().tokenizers.Get(tokenizer)), wait);
}
Status MatcherAcceptTokens(Process& process, uint32_t matcher, std::span<const uint32_t> tokens) {
  PIE_RETURN_IF_ERROR(CheckTokenCount(process, tokens));
  return PIE_TRY(MatcherOf(process, matcher))->Accept(tokens);
}
Result<std::vector<uint32_t>> MatcherNextTokenLogitMask(Process& process, uint32_t matcher) {
  return PIE_TRY(MatcherOf(process, matcher))->matcher.MaskRuns();
}
Result<bool> MatcherIsTerminated(Process& process, uint32_t matcher) {
  return PIE_TRY(MatcherOf(process, matcher))->matcher.is_terminated();
}
Status MatcherReset(Process& process, uint32_t matcher) {
  GuestMatcher& guest = **PIE_TRY(process.handles().matchers.Get(matcher));
  guest.Reset();
  return {};
}
Status MatcherDrop(Process& process, uint32_t matcher) {
  process.handles().matchers.Remove(matcher);
  return {};
}

Status ConstraintsConstrain(Process& process, uint32_t pass, uint32_t matcher) {
  Pass* open = PIE_TRY(OpenPass(process, pass));
  GuestMatcher* guest = PIE_TRY(MatcherOf(process, matcher));
  if (open->matchers.size() >= kMatchersPerPass) {
    return Fail(Code::kExhausted, "a pass has at most {} matchers", kMatchersPerPass);
  }
  if (!Keep(process, *open, BytesOf(guest->matcher))) {
    return std::unexpected(*open->refusal);
  }
  open->matchers.push_back({.matcher = PIE_TRY(guest->matcher.Fork()),
                            .name = guest->name,
                            .compiled = guest->compiled});
  const auto& held = *PIE_TRY(process.handles().matchers.Get(matcher));
  const bool follows = std::ranges::find(open->followers, held) != open->followers.end();
  if (!follows) open->followers.push_back(held);
  return {};
}
Result<uint32_t> ConstraintsFork(Process& process, uint32_t matcher) {
  const GuestMatcher* guest = PIE_TRY(MatcherOf(process, matcher));
  Charge charge = process.NewCharge();
  if (!charge.Grow(BytesOf(guest->matcher))) return PassMemoryLimit(process);
  return process.handles().matchers.Emplace(std::make_shared<GuestMatcher>(
      PIE_TRY(guest->matcher.Fork()), guest->name, std::move(charge), guest->compiled));
}
Status ConstraintsRollback(Process& process, uint32_t matcher, uint32_t tokens) {
  return PIE_TRY(MatcherOf(process, matcher))->matcher.Rollback(tokens);
}
Result<std::vector<uint32_t>> ConstraintsForcedTokens(Process& process, uint32_t matcher) {
  return PIE_TRY(MatcherOf(process, matcher))->matcher.ForcedTokens();
}

}  // namespace pie::host
