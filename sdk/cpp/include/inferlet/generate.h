// Generator: tokens, one step after another.
//
//   auto text = PIE_TRY(co_await context.Generate(Sampler::TopP(0.6, 0.95))
//                           .MaxTokens(256).CollectText());
//
// Each step runs the context's buffer, samples on its last row, and puts the accepted token into
// the buffer. The loop ends where the model ends its turn or the text, at a Stop token, or at
// MaxTokens. It does not open the model's turn: call Context::Cue before. A Generator is a handle,
// so that its builder methods can be chained: copies mean the same generation, and keep its context
// alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inferlet/constrain.h"
#include "inferlet/count.h"
#include "inferlet/describe.h"
#include "inferlet/json.h"
#include "inferlet/output.h"
#include "inferlet/result.h"
#include "inferlet/sample.h"
#include "inferlet/spec.h"
#include "inferlet/task.h"

namespace inferlet {

class Adapter;
class GenStep;

namespace detail {
struct ContextState;
struct GeneratorState;
struct StepState;
class Thoughts;
}  // namespace detail

// A generation. Builder methods set it up; a collector or Next runs it.
class Generator {
 public:
  Generator(std::shared_ptr<detail::ContextState> context, Sampler sampler);

  // Ends the generation after `n` accepted tokens. If `n` is negative, the generation fails.
  Generator& MaxTokens(Count n);
  // Adds stop tokens. The generation ends at them, and they are not accepted. A generator begins
  // with the model's own stop tokens, which end a turn or the text.
  Generator& Stop(std::span<const uint32_t> tokens = {});
  Generator& Stop(std::initializer_list<uint32_t> tokens) {
    return Stop(std::span(tokens.begin(), tokens.size()));
  }
  // Does the same as Stop.
  Generator& AddStop(std::span<const uint32_t> tokens) { return Stop(tokens); }
  Generator& AddStop(std::initializer_list<uint32_t> tokens) { return Stop(tokens); }
  // Removes the model's own stop tokens: the generation goes on past the end of a turn.
  Generator& IgnoreEos();
  // Restricts the choice at every step. Several constraints hold together.
  template <class C>
  Generator& Constrain(C constraint) {
    return AddConstraint(std::make_unique<detail::ConstraintOf<C>>(std::move(constraint)));
  }
  // Restricts the choice by a schema. Fails if the schema cannot be compiled.
  template <class Schema>
  Result<Generator> ConstrainWith(const Schema& schema) {
    if constexpr (std::same_as<Schema, Grammar>) {
      return Constrain(PIE_TRY_SYNC(GrammarConstraint::FromGrammar(schema, ContextModel())));
    } else {
      return Constrain(PIE_TRY_SYNC(schema.BuildConstraint(ContextModel())));
    }
  }
  // Lets a model that reasons think before the document of CollectJson. A model whose turn begins
  // with its thoughts always does.
  Generator& ThinkFirst();
  // Applies the same mask (BRLE) at every step.
  Generator& LogitMask(std::vector<uint32_t> brle);
  // Sets a drafter of your own, whose drafts each step verifies. It is not used beside a constraint
  // of your own, whose mask holds for one position only. The generation fails if SystemSpeculation
  // is set too.
  Generator& Speculator(std::unique_ptr<inferlet::Speculator> speculator);
  // Uses the engine's own drafter. The generation fails if a Speculator is set too.
  Generator& SystemSpeculation();
  // Applies an adapter to every pass.
  Generator& Adapter(const inferlet::Adapter& adapter);
  // Perturbs the adapter in every pass (evolution strategies).
  Generator& ZoSeed(int64_t seed);
  // Makes step i draw from `seed + i` alone: the same seed gives the same tokens.
  Generator& Seed(uint64_t seed);
  // Says how many tokens you expect, from which the engine computes bids. If `n` is negative, the
  // generation fails.
  Generator& Horizon(Count n);
  // Adds a probe to every step. Index 0 is the row that is sampled.
  template <class P>
  ProbeHandle<P> ProbeEachStep(uint32_t index, P probe) {
    return {AddProbe(index, std::move(probe))};
  }

  // Runs to the end and returns the accepted tokens.
  Task<Result<std::vector<uint32_t>>> CollectTokens();
  // Runs to the end and returns the text that a reader of the chat would see. The end of the
  // model's turn also ends the text.
  Task<Result<std::string>> CollectText();
  // Runs until a JSON document of this schema is complete, and parses it. An empty schema allows
  // any JSON. A model that reasons may think before the document: see ThinkFirst.
  Task<Result<Json>> CollectJson(std::string_view schema = {});
  // Runs until a JSON document is complete, and returns it as a value of a described type
  // (describe.h).
  template <Described T>
  Task<Result<T>> CollectJson() {
    return ReadJson<T>(CollectJson(SchemaOf<T>().Dump()));
  }

  // Returns the next step, or none if the generation has ended:
  //   while (auto step = PIE_TRY(generator.Next())) { Output out = PIE_TRY(co_await
  //   step->Execute()); … }
  Result<std::optional<GenStep>> Next();
  // Accepts your tokens in place of those that the step chose, or after ClearSampler. Returns the
  // tokens that are left after stop tokens and the limit.
  std::vector<uint32_t> Accept(std::span<const uint32_t> tokens);
  std::vector<uint32_t> Accept(std::initializer_list<uint32_t> tokens) {
    return Accept(std::span(tokens.begin(), tokens.size()));
  }

  // Whether the generation has ended: at a stop token, at the limit, or by a constraint.
  bool IsDone() const;
  // How many tokens were accepted.
  size_t TokensGenerated() const;

 private:
  template <class T>
  static Task<Result<T>> ReadJson(Task<Result<Json>> document) {
    co_return FromJson<T>(PIE_TRY(co_await document));
  }
  // Restricts the text to a document. Returns the marks of the thoughts that may come before it.
  Result<std::optional<detail::Thoughts>> ConstrainDocument(std::string_view schema);
  Generator& AddConstraint(std::unique_ptr<detail::Constraint> constraint);
  SlotHandle AddProbe(uint32_t index, Probe probe);
  const Model& ContextModel() const;

  std::shared_ptr<detail::GeneratorState> state_;
};

// One step of a Generator.
class GenStep {
 public:
  explicit GenStep(std::shared_ptr<detail::GeneratorState> generator);

  // Makes the step choose no token. Read a probe and call Generator::Accept.
  GenStep& ClearSampler();
  // Adds a probe to this step. Index 0 is the row that is sampled.
  template <class P>
  ProbeHandle<P> Probe(uint32_t index, P probe) {
    return {AddProbe(index, std::move(probe))};
  }
  // Runs the pass and accepts the tokens that it chose: `tokens` of the output.
  Task<Result<Output>> Execute();

 private:
  SlotHandle AddProbe(uint32_t row, inferlet::Probe probe);

  std::shared_ptr<detail::StepState> state_;
};

}  // namespace inferlet
