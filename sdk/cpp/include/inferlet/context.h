// Context: a token sequence with its KV cache.
//
// Text and tokens are buffered first; Flush, a Generator or a Forward runs them through the model.
// Tokens live in pages: full ones are committed (immutable, shared by equal prefixes), the rest are
// working pages. A Context is moved, never copied: Fork makes a copy-on-write clone.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/count.h"
#include "inferlet/model.h"
#include "inferlet/result.h"
#include "inferlet/sample.h"
#include "inferlet/task.h"
#include "inferlet/tools.h"

namespace inferlet {

class Forward;
class Generator;
class Idle;

namespace detail {
struct ContextState;
}

// A token sequence with its KV cache, and a buffer of tokens that are still to be computed.
class Context {
 public:
  // Makes an empty context. Its pages are given back when the Context and all generators, passes
  // and tasks that use it are destroyed.
  static Result<Context> New(const inferlet::Model& model);
  // Returns a copy of a saved context. The snapshot stays.
  static Result<Context> Open(const inferlet::Model& model, std::string_view name);
  // Returns a saved context and deletes the snapshot.
  static Result<Context> Take(const inferlet::Model& model, std::string_view name);
  // Removes a snapshot.
  static Result<void> Delete(const inferlet::Model& model, std::string_view name);

  Context(Context&&) = default;
  Context& operator=(Context&&) = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Saves all tokens, buffered ones too, under a name. A snapshot of that name is replaced.
  Result<void> Save(std::string_view name) const;
  // Saves all tokens under a fresh name, and returns the name.
  Result<std::string> Snapshot() const;
  // Returns a copy-on-write clone, with a copy of the buffer. Takes O(1).
  Result<Context> Fork() const;
  // Gives all pages back now. Every later call that returns a Result fails.
  void Release();

  // Buffers a system message. Calls that return a Context& report no error themselves: the next
  // call that returns a Result does.
  Context& System(std::string_view text);
  // Buffers a turn of the user.
  Context& User(std::string_view text);
  // Buffers a finished turn of the model.
  Context& Assistant(std::string_view text);
  // Buffers a finished turn of the model that called tools, written as the model's template writes
  // calls. `text` is what the model said before the calls; it may be empty. Give the answers next,
  // with AnswerCall.
  Context& AssistantCalls(std::string_view text, std::span<const tools::Call> calls);
  Context& AssistantCalls(std::string_view text, std::initializer_list<tools::Call> calls) {
    return AssistantCalls(text, std::span(calls.begin(), calls.size()));
  }
  Context& Cue();   // opens the model's own turn
  Context& Seal();  // closes the model's own turn
  // Tells the model which tools (JSON schemas) it has.
  Result<void> EquipTools(std::span<const std::string> schemas);
  Result<void> EquipTools(std::initializer_list<std::string> schemas) {
    return EquipTools(std::span(schemas.begin(), schemas.size()));
  }
  // Buffers the answer of a tool.
  Context& AnswerTool(std::string_view name, std::string_view value);
  // Buffers the answer of a tool to one of several calls: templates that write the ids of calls
  // write the id of this one.
  Context& AnswerCall(const tools::Call& call, std::string_view value);
  // Buffers plain text, outside any chat turn.
  Context& AppendText(std::string_view text);
  // Buffers tokens as they are.
  Context& Append(std::span<const uint32_t> tokens);
  Context& Append(std::initializer_list<uint32_t> tokens) {
    return Append(std::span(tokens.begin(), tokens.size()));
  }

  // Runs the buffered tokens through the model. Does nothing if the buffer is empty. On an error
  // the buffer stays as it was.
  Task<Result<void>> Flush();
  // Drops the last `n` computed tokens. Fails if there are fewer.
  Result<void> Truncate(Count n);

  // Makes a generator that continues this context. See generate.h.
  Generator Generate(Sampler sampler);
  // Makes one forward pass that you compose. See forward.h.
  inferlet::Forward Forward();

  // The model that computes this context.
  const inferlet::Model& Model() const;
  uint32_t PageSize() const;  // how many tokens a page holds
  uint32_t SeqLen() const;    // tokens in committed and working pages, without the buffer
  // How many of the tokens that were flushed or given to a generation were found in the engine's
  // prefix cache, and not computed. A fork begins with 0.
  uint64_t CachedTokens() const;
  // The tokens that wait for the next pass.
  const std::vector<uint32_t>& Buffer() const;
  const raw::Context& Inner() const;  // for page-level operations

  // Bids `value` credits per page in the next pass. Later passes bid as before. Fails if `value` is
  // negative or not finite.
  Result<void> SetBid(double value);
  // Bids 0 while the guard lives, so that others may get the pages. Then the context bids as
  // before.
  [[nodiscard]] inferlet::Idle Idle();
  // Gives the pages back until the next pass, which restores them.
  Result<void> Suspend();

 private:
  explicit Context(std::shared_ptr<detail::ContextState> state) : state_(std::move(state)) {}
  static Result<Context> Adopt(const inferlet::Model& model,
                               std::expected<raw::Context, wit::string> made);
  // Returns a context that holds the buffered tokens too: a fork, if there are any.
  Result<Context> Whole() const;

  std::shared_ptr<detail::ContextState> state_;
};

// The guard that Context::Idle returns. Its destructor restores the bid.
class Idle {
 public:
  explicit Idle(std::shared_ptr<detail::ContextState> state);
  Idle(Idle&&) = default;
  ~Idle();

 private:
  std::shared_ptr<detail::ContextState> state_;
};

}  // namespace inferlet
