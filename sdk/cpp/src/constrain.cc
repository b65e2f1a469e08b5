#include "inferlet/constrain.h"

#include <algorithm>

namespace inferlet {

namespace brle {

std::vector<uint32_t> Allow(std::vector<uint32_t> ids) {
  std::sort(ids.begin(), ids.end());
  std::vector<uint32_t> mask;
  uint32_t end = 0;  // where the runs so far end
  for (const uint32_t id : ids) {
    if (id < end) continue;  // a duplicate
    if (id == end && !mask.empty()) {
      ++mask.back();
    } else {
      mask.push_back(id - end);
      mask.push_back(1);
    }
    end = id + 1;
  }
  if (mask.empty()) mask.push_back(UINT32_MAX);  // nothing is allowed
  return mask;
}

std::vector<uint32_t> Intersect(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  if (a.empty()) return {b.begin(), b.end()};
  if (b.empty()) return {a.begin(), a.end()};
  std::vector<uint32_t> mask;
  size_t i = 0, j = 0;
  uint32_t left_a = a[0], left_b = b[0];
  bool run_allowed = false;  // the value of the run at the end of `mask`
  mask.push_back(0);
  while (i < a.size() && j < b.size()) {
    const uint32_t length = std::min(left_a, left_b);
    const bool allowed = i % 2 == 1 && j % 2 == 1;
    if (length > 0 && allowed != run_allowed) {
      mask.push_back(0);
      run_allowed = allowed;
    }
    mask.back() += length;
    left_a -= length;
    left_b -= length;
    if (left_a == 0 && ++i < a.size()) left_a = a[i];
    if (left_b == 0 && ++j < b.size()) left_b = b[j];
  }
  return mask;
}

bool AllowsNone(std::span<const uint32_t> mask) {
  for (size_t i = 1; i < mask.size(); i += 2) {
    if (mask[i] > 0) return false;
  }
  return !mask.empty();
}

}  // namespace brle

using detail::Lift;
namespace host = pie::plus::constraints;

namespace {

Result<Grammar> ToGrammar(std::expected<raw::Grammar, wit::string> made) {
  return Lift(std::move(made), [](raw::Grammar grammar) { return Grammar(std::move(grammar)); });
}

Result<GrammarConstraint> ToConstraint(Result<Grammar> grammar, const Model& model,
                                       std::string name) {
  const Grammar made = PIE_TRY_SYNC(std::move(grammar));
  return GrammarConstraint(PIE_TRY_SYNC(Matcher::New(made, model.Tokenizer())), std::move(name));
}

}  // namespace

Result<Grammar> Grammar::FromJsonSchema(std::string_view schema) {
  return ToGrammar(raw::Grammar::FromJsonSchema(schema));
}
Result<Grammar> Grammar::Json() {
  return ToGrammar(pie::plus::fallible::JsonGrammar());
}
Result<Grammar> Grammar::FromRegex(std::string_view pattern) {
  return ToGrammar(raw::Grammar::FromRegex(pattern));
}
Result<Grammar> Grammar::FromEbnf(std::string_view source) {
  return ToGrammar(raw::Grammar::FromEbnf(source));
}
std::string Grammar::ToString() const {
  return detail::Text(raw_->ToString());
}

Result<Matcher> Matcher::New(const Grammar& grammar, const Tokenizer& tokenizer) {
  return Lift(pie::plus::fallible::CreateMatcher(grammar.Inner(), tokenizer.Inner()),
              [](raw::Matcher made) { return Matcher(std::move(made)); });
}
Result<void> Matcher::AcceptTokens(std::span<const uint32_t> tokens) {
  return Lift(raw_.AcceptTokens(tokens));
}
std::vector<uint32_t> Matcher::NextTokenLogitMask() const {
  return detail::List(raw_.NextTokenLogitMask());
}

Result<Matcher> Matcher::Fork() const {
  return Lift(host::Fork(raw_), [](raw::Matcher made) { return Matcher(std::move(made)); });
}
Result<void> Matcher::Rollback(Count tokens) {
  PIE_TRY_SYNC(tokens.Check("tokens"));
  return Lift(host::Rollback(raw_, tokens.As<uint32_t>()));
}
Result<std::vector<uint32_t>> Matcher::ForcedTokens() const {
  return Lift(host::ForcedTokens(raw_), detail::List<uint32_t>);
}

Result<GrammarConstraint> GrammarConstraint::FromGrammar(const Grammar& grammar,
                                                         const Model& model) {
  return GrammarConstraint(PIE_TRY_SYNC(Matcher::New(grammar, model.Tokenizer())));
}
Result<GrammarConstraint> GrammarConstraint::Json(const Model& model) {
  return ToConstraint(Grammar::Json(), model, "JSON");
}
Result<GrammarConstraint> GrammarConstraint::FromJsonSchema(std::string_view schema,
                                                            const Model& model) {
  return ToConstraint(Grammar::FromJsonSchema(schema), model, "JSON schema");
}
Result<GrammarConstraint> GrammarConstraint::FromRegex(std::string_view pattern,
                                                       const Model& model) {
  return ToConstraint(Grammar::FromRegex(pattern), model, "regular expression");
}
Result<GrammarConstraint> GrammarConstraint::FromEbnf(std::string_view source, const Model& model) {
  return ToConstraint(Grammar::FromEbnf(source), model, "EBNF grammar");
}

bool GrammarConstraint::IsFinished() const {
  return matcher_.IsTerminated();
}

Result<std::vector<uint32_t>> GrammarConstraint::Step(std::span<const uint32_t> accepted) {
  if (!accepted.empty()) PIE_TRY_SYNC(matcher_.AcceptTokens(accepted));
  return matcher_.NextTokenLogitMask();
}

Result<GrammarConstraint> AnyJson::BuildConstraint(const Model& model) const {
  return GrammarConstraint::Json(model);
}
Result<GrammarConstraint> JsonSchema::BuildConstraint(const Model& model) const {
  return GrammarConstraint::FromJsonSchema(schema, model);
}
Result<GrammarConstraint> Regex::BuildConstraint(const Model& model) const {
  return GrammarConstraint::FromRegex(pattern, model);
}
Result<GrammarConstraint> Ebnf::BuildConstraint(const Model& model) const {
  return GrammarConstraint::FromEbnf(source, model);
}

}  // namespace inferlet
