// Constraints: which tokens a Generator may choose at each step.
//
// A constraint is any type with `std::vector<uint32_t> Step(std::span<const uint32_t> accepted)`,
// or a lambda of that signature. It takes in the tokens just accepted (none at first) and gives the
// BRLE logit mask of the next position; an empty mask restricts nothing. It may also return a
// Result. A type with `bool IsFinished()` ends the generation when that says so; errors call it by
// its `Name()`, if it has one.
//
// A schema is any type with `Result<GrammarConstraint> BuildConstraint(const Model&) const`.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet {

// Masks as run lengths: forbidden, allowed, forbidden, … The first run may be 0.
namespace brle {

// Allows these token ids only.
std::vector<uint32_t> Allow(std::vector<uint32_t> ids);
// Allows what both allow. An empty mask restricts nothing.
std::vector<uint32_t> Intersect(std::span<const uint32_t> a, std::span<const uint32_t> b);
// Whether a mask allows no token. An empty mask allows all.
bool AllowsNone(std::span<const uint32_t> mask);

}  // namespace brle

// A compiled grammar. A handle: copies mean the same grammar.
class Grammar {
 public:
  // JSON documents of a schema (its text). An error when it is no schema, or uses what is not
  // supported.
  static Result<Grammar> FromJsonSchema(std::string_view schema);
  static Result<Grammar> Json();  // any JSON text
  // Texts that match a regular expression as a whole. An error when it cannot be parsed.
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

// A walker over a grammar, token by token.
class Matcher {
 public:
  // An error when the grammar cannot be compiled for the tokenizer.
  static Result<Matcher> New(const Grammar& grammar, const Tokenizer& tokenizer);
  explicit Matcher(raw::Matcher raw) : raw_(std::move(raw)) {}

  // Advances by these tokens, all or none. An error on one that the grammar does not allow here.
  Result<void> AcceptTokens(std::span<const uint32_t> tokens);
  // The tokens that may come next. Where the text is complete, these are the tokens that end a
  // turn.
  std::vector<uint32_t> NextTokenLogitMask() const;
  // Whether the text is complete and nothing can follow.
  bool IsTerminated() const { return raw_.IsTerminated(); }
  // Goes back to the beginning of the grammar.
  void Reset() { raw_.Reset(); }
  // Another matcher at the same place of the text.
  Result<Matcher> Fork() const;
  // Takes back the last `tokens` tokens. An error when it has accepted fewer.
  Result<void> Rollback(uint32_t tokens);
  // The tokens that must come next; empty where there is a choice.
  Result<std::vector<uint32_t>> ForcedTokens() const;

  // The engine's handle.
  const raw::Matcher& Inner() const { return raw_; }

 private:
  raw::Matcher raw_;
};

// A grammar as a constraint. The engine can apply it by itself: no mask enters the program.
class GrammarConstraint {
 public:
  // Applies a matcher. Errors call the constraint by `name`.
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

  // Takes what was accepted and gives the mask of the next position. An error when the grammar does
  // not allow what was accepted.
  Result<std::vector<uint32_t>> Step(std::span<const uint32_t> accepted);
  bool IsFinished() const;                           // the text is complete
  const std::string& Name() const { return name_; }  // what errors call it
  // The matcher that it applies.
  const Matcher& Inner() const { return matcher_; }

 private:
  Matcher matcher_;
  std::string name_;
};

// Declarative schemas, for Generator::ConstrainWith. A Grammar is one too.
struct AnyJson {
  // A constraint that accepts any JSON document.
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};
// JSON documents of a schema.
struct JsonSchema {
  // The text of the JSON Schema.
  std::string schema;
  // An error when the schema cannot be compiled.
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};
// Texts that match a regular expression as a whole.
struct Regex {
  // The regular expression.
  std::string pattern;
  // An error when the pattern cannot be compiled.
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};
// Texts of a grammar.
struct Ebnf {
  // The grammar in Lark's EBNF or in GBNF.
  std::string source;
  // An error when the grammar cannot be compiled.
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};

namespace detail {

// The one shape in which a Generator keeps constraints.
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
