// Constraints: which tokens a Generator may choose at each step.
//
// A constraint is any type with `std::vector<uint32_t> Step(std::span<const uint32_t> accepted)`,
// or a lambda of that signature. It gets the tokens that were just accepted (none at first) and
// returns the BRLE logit mask of the next position; an empty mask restricts nothing. It may also
// return a Result. A type with `bool IsFinished()` ends the generation when that returns true.
// Errors name a constraint by its `Name()`, if it has one.
//
// A schema is any type with `Result<GrammarConstraint> BuildConstraint(const Model&) const`.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/count.h"
#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet {

// Masks as run lengths: forbidden, allowed, forbidden, … The first run may be 0.
namespace brle {

// Allows these token ids only.
std::vector<uint32_t> Allow(std::vector<uint32_t> ids);
// Returns the mask of the tokens that both masks allow. An empty mask restricts nothing.
std::vector<uint32_t> Intersect(std::span<const uint32_t> a, std::span<const uint32_t> b);
// Whether a mask allows no token. An empty mask allows all.
bool AllowsNone(std::span<const uint32_t> mask);

}  // namespace brle

// A compiled grammar. It is a handle: copies mean the same grammar.
class Grammar {
 public:
  // Makes the grammar of the JSON documents of a schema. Fails if the text is not a schema, or uses
  // a keyword that is not enforced.
  static Result<Grammar> FromJsonSchema(std::string_view schema);
  static Result<Grammar> Json();  // any JSON text
  // Makes the grammar of the texts that a regular expression matches as a whole. Fails if the
  // expression cannot be parsed.
  static Result<Grammar> FromRegex(std::string_view pattern);
  static Result<Grammar> FromEbnf(std::string_view source);  // Lark or GBNF
  // The source that the grammar was made from.
  std::string ToString() const;

  explicit Grammar(raw::Grammar raw) : raw_(std::make_shared<raw::Grammar>(std::move(raw))) {}
  // The engine's handle.
  const raw::Grammar& Inner() const { return *raw_; }

 private:
  std::shared_ptr<raw::Grammar> raw_;
};

// Follows a text through a grammar, token by token.
class Matcher {
 public:
  // Fails if the grammar cannot be compiled for the tokenizer.
  static Result<Matcher> New(const Grammar& grammar, const Tokenizer& tokenizer);
  explicit Matcher(raw::Matcher raw) : raw_(std::move(raw)) {}

  // Advances by all of these tokens, or by none. Fails on a token that the grammar does not allow
  // here.
  Result<void> AcceptTokens(std::span<const uint32_t> tokens);
  Result<void> AcceptTokens(std::initializer_list<uint32_t> tokens) {
    return AcceptTokens(std::span(tokens.begin(), tokens.size()));
  }
  // Returns the mask of the tokens that may come next. If the text is complete, these are the
  // tokens that end a turn.
  std::vector<uint32_t> NextTokenLogitMask() const;
  // Whether the text is complete and nothing can follow.
  bool IsTerminated() const { return raw_.IsTerminated(); }
  // Goes back to the beginning of the grammar.
  void Reset() { raw_.Reset(); }
  // Makes another matcher at the same place of the text.
  Result<Matcher> Fork() const;
  // Takes back the last `tokens` tokens. Fails if the matcher has accepted fewer.
  Result<void> Rollback(Count tokens);
  // Returns the tokens that must come next; none if there is a choice.
  Result<std::vector<uint32_t>> ForcedTokens() const;

  // The engine's handle.
  const raw::Matcher& Inner() const { return raw_; }

 private:
  raw::Matcher raw_;
};

// A grammar as a constraint. The engine can apply it by itself: no mask enters the program.
class GrammarConstraint {
 public:
  // Applies a matcher. Errors name the constraint `name`.
  explicit GrammarConstraint(Matcher matcher, std::string name = "grammar")
      : matcher_(std::move(matcher)), name_(std::move(name)) {}

  // Any JSON document.
  static Result<GrammarConstraint> Json(const Model& model);
  // Texts of a grammar.
  static Result<GrammarConstraint> FromGrammar(const Grammar& grammar, const Model& model);
  // JSON documents of a schema (its text).
  static Result<GrammarConstraint> FromJsonSchema(std::string_view schema, const Model& model);
  // Texts that match a regular expression.
  static Result<GrammarConstraint> FromRegex(std::string_view pattern, const Model& model);
  // Texts of a grammar in Lark's EBNF or in GBNF.
  static Result<GrammarConstraint> FromEbnf(std::string_view source, const Model& model);

  // Advances by the accepted tokens and returns the mask of the next position. Fails if the grammar
  // does not allow these tokens.
  Result<std::vector<uint32_t>> Step(std::span<const uint32_t> accepted);
  bool IsFinished() const;                           // the text is complete
  const std::string& Name() const { return name_; }  // its name in errors
  // The matcher that it applies.
  const Matcher& Inner() const { return matcher_; }

 private:
  Matcher matcher_;
  std::string name_;
};

// The types below are schemas for Generator::ConstrainWith, as a Grammar is. AnyJson allows any
// JSON document.
struct AnyJson {
  // A constraint that accepts any JSON document.
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};
// JSON documents of a schema.
struct JsonSchema {
  // The text of the JSON Schema.
  std::string schema;
  // Fails if the schema cannot be compiled.
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};
// Texts that match a regular expression as a whole.
struct Regex {
  // The regular expression.
  std::string pattern;
  // Fails if the pattern cannot be compiled.
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};
// Texts of a grammar.
struct Ebnf {
  // The grammar in Lark's EBNF or in GBNF.
  std::string source;
  // Fails if the grammar cannot be compiled.
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};

namespace detail {

// The form in which a Generator keeps constraints of all types.
class Constraint {
 public:
  virtual ~Constraint() = default;
  virtual Result<std::vector<uint32_t>> Step(std::span<const uint32_t> accepted) = 0;
  virtual bool IsFinished() = 0;
  virtual std::string Name() const = 0;
  // The matcher that is the whole constraint; null for a constraint of the program's own.
  virtual const Matcher* AsMatcher() const = 0;
};

template <class C>
class ConstraintOf final : public Constraint {
 public:
  explicit ConstraintOf(C constraint) : constraint_(std::move(constraint)) {}
  Result<std::vector<uint32_t>> Step(std::span<const uint32_t> accepted) override {
    if constexpr (std::invocable<C&, std::span<const uint32_t>>) {
      return constraint_(accepted);
    } else {
      return constraint_.Step(accepted);
    }
  }
  bool IsFinished() override {
    if constexpr (requires { constraint_.IsFinished(); }) return constraint_.IsFinished();
    return false;
  }
  std::string Name() const override {
    if constexpr (requires { constraint_.Name(); }) return std::string(constraint_.Name());
    return "constraint";
  }
  const Matcher* AsMatcher() const override {
    if constexpr (std::same_as<C, GrammarConstraint>) return &constraint_.Inner();
    return nullptr;
  }

 private:
  C constraint_;
};

}  // namespace detail
}  // namespace inferlet
