// Constraints: which tokens a Generator may choose at each step.
//
// A constraint is any type with `std::vector<uint32_t> Step(std::span<const uint32_t> accepted)`,
// or a lambda of that signature. It takes in the tokens just accepted (none at first) and gives the
// BRLE logit mask of the next position; an empty mask restricts nothing. It may also return a
// Result. A type with `bool IsFinished()` ends the generation when that says so.
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

}  // namespace brle

// A compiled grammar. A handle: copies mean the same grammar.
class Grammar {
 public:
  static Result<Grammar> FromJsonSchema(std::string_view schema);
  static Result<Grammar> Json();  // any JSON text
  static Result<Grammar> FromRegex(std::string_view pattern);
  static Result<Grammar> FromEbnf(std::string_view source);  // Lark or GBNF
  std::string ToString() const;

  explicit Grammar(raw::Grammar raw) : raw_(std::make_shared<raw::Grammar>(std::move(raw))) {}
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

  Result<void> AcceptTokens(std::span<const uint32_t> tokens);
  std::vector<uint32_t> NextTokenLogitMask() const;
  bool IsTerminated() const { return raw_.IsTerminated(); }
  void Reset() { raw_.Reset(); }

 private:
  raw::Matcher raw_;
};

// A grammar as a constraint.
class GrammarConstraint {
 public:
  explicit GrammarConstraint(Matcher matcher) : matcher_(std::move(matcher)) {}

  static Result<GrammarConstraint> Json(const Model& model);
  static Result<GrammarConstraint> FromGrammar(const Grammar& grammar, const Model& model);
  static Result<GrammarConstraint> FromJsonSchema(std::string_view schema, const Model& model);
  static Result<GrammarConstraint> FromRegex(std::string_view pattern, const Model& model);
  static Result<GrammarConstraint> FromEbnf(std::string_view source, const Model& model);

  Result<std::vector<uint32_t>> Step(std::span<const uint32_t> accepted);
  bool IsFinished() const;  // the text is complete

 private:
  Matcher matcher_;
};

// Declarative schemas, for Generator::ConstrainWith. A Grammar is one too.
struct AnyJson {
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};
struct JsonSchema {
  std::string schema;
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};
struct Regex {
  std::string pattern;
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};
struct Ebnf {
  std::string source;
  Result<GrammarConstraint> BuildConstraint(const Model& model) const;
};

namespace detail {

// The one shape in which a Generator keeps constraints.
class Constraint {
 public:
  virtual ~Constraint() = default;
  virtual Result<std::vector<uint32_t>> Step(std::span<const uint32_t> accepted) = 0;
  virtual bool IsFinished() = 0;
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

 private:
  C constraint_;
};

}  // namespace detail
}  // namespace inferlet
