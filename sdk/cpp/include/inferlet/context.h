// Context: a token sequence with its KV cache.
//
// Text and tokens are buffered first; Flush, a Generator or a Forward runs them through the model.
// Tokens live in pages: full ones are committed (immutable, shared by equal prefixes), the rest are
// working pages. A Context is moved, never copied: Fork makes a copy-on-write clone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/model.h"
#include "inferlet/result.h"
#include "inferlet/sample.h"
#include "inferlet/task.h"

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
  // A fresh one without a name. Its pages are given back when the last user of it is gone.
  static Result<Context> New(const inferlet::Model& model);
  // A copy of a saved snapshot. The snapshot stays.
  static Result<Context> Open(const inferlet::Model& model, std::string_view name);
  // The same, and the snapshot is gone.
  static Result<Context> Take(const inferlet::Model& model, std::string_view name);
  // Removes a snapshot.
  static Result<void> Delete(const inferlet::Model& model, std::string_view name);

  Context(Context&&) = default;
  Context& operator=(Context&&) = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Keeps all tokens, buffered ones too, under a name. A snapshot of that name is replaced.
  Result<void> Save(std::string_view name) const;
  Result<std::string> Snapshot() const;  // under a fresh name, which is returned
  // A copy-on-write clone, with a copy of the buffer. O(1).
  Result<Context> Fork() const;
  // Gives all pages back now. Every later call that returns a Result fails.
  void Release();

  // Calls that return a Context& report no error themselves: the next call that returns a Result
  // does.
  Context& System(std::string_view text);
  // Buffers a turn of the user.
  Context& User(std::string_view text);
  // Buffers a finished turn of the model.
  Context& Assistant(std::string_view text);
  Context& Cue();   // opens the model's own turn
  Context& Seal();  // closes it
  // Tells the model which tools (JSON schemas) it has.
  Result<void> EquipTools(std::span<const std::string> schemas);
  Context& AnswerTool(std::string_view name, std::string_view value);  // gives its answer back
  Context& AppendText(std::string_view text);  // plain text, outside any chat turn
  // Buffers tokens as they are.
  Context& Append(std::span<const uint32_t> tokens);
  Context& Append(std::initializer_list<uint32_t> tokens) {
    return Append(std::span(tokens.begin(), tokens.size()));
  }

  // Runs what is buffered through the model. Nothing to do for an empty buffer. On an error the
  // buffer is as before.
  Task<Result<void>> Flush();
  // Forgets the last `n` computed tokens. An error when there are fewer.
  Result<void> Truncate(uint32_t n);

  // A generation of tokens from here on. See generate.h.
  Generator Generate(Sampler sampler);
  // One forward pass of your own. See forward.h.
  inferlet::Forward Forward();

  // The model that it belongs to.
  const inferlet::Model& Model() const;
  uint32_t PageSize() const;  // tokens a page
  uint32_t SeqLen() const;    // tokens in committed and working pages, without the buffer
  // The tokens that wait for the next pass.
  const std::vector<uint32_t>& Buffer() const;
  const raw::Context& Inner() const;  // for page-level operations

  // Bids `value` credits a page in the next pass; the pass behind it bids as before. An error when
  // `value` is no bid.
  Result<void> SetBid(double value);
  // Bids nothing while the guard lives, then as before: others may get the pages meanwhile.
  [[nodiscard]] inferlet::Idle Idle();
  // Gives the pages back until the next pass, which restores them.
  Result<void> Suspend();

 private:
  explicit Context(std::shared_ptr<detail::ContextState> state) : state_(std::move(state)) {}
  static Result<Context> Adopt(const inferlet::Model& model,
                               std::expected<raw::Context, wit::string> made);
  // One that holds the buffered tokens too: a copy, if there are any.
  Result<Context> Whole() const;

  std::shared_ptr<detail::ContextState> state_;
};

// The guard that Context::Idle returns. Its end restores the bid.
class Idle {
 public:
  explicit Idle(std::shared_ptr<detail::ContextState> state);
  Idle(Idle&&) = default;
  ~Idle();

 private:
  std::shared_ptr<detail::ContextState> state_;
};

}  // namespace inferlet
