// Shared by Context, Forward and Generator: the state of a context, and the one way to run a pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "inferlet/adapter.h"
#include "inferlet/bindings.h"
#include "inferlet/constrain.h"
#include "inferlet/model.h"
#include "inferlet/output.h"
#include "inferlet/result.h"
#include "inferlet/sample.h"
#include "inferlet/task.h"
#include "turns.h"

namespace inferlet::detail {

// The pages and tokens of a context.
struct Extent {
  uint32_t committed_pages;
  uint32_t working_pages;
  uint32_t working_tokens;
};

struct ContextState {
  ContextState(raw::Context context, Model its_model)
      : raw(std::move(context)), model(std::move(its_model)), page_size(raw.TokensPerPage()) {}

  uint32_t SeqLen() const {
    if (is_released) return 0;
    return LengthOf(Measure());
  }
  uint32_t LengthOf(const Extent& extent) const {
    return extent.committed_pages * page_size + extent.working_tokens;
  }
  // Returns the extent. Asks the engine, unless it is known.
  Extent Measure() const;
  // Makes room for `tokens` more behind `extent`. Returns the number of working pages.
  Result<uint32_t> Reserve(const Extent& extent, uint32_t tokens);
  // After a pass: forgets the last `forgotten` tokens, then commits the pages that are full, but
  // for those with one of the last `revocable` tokens.
  Result<void> Settle(uint32_t forgotten, uint32_t revocable = 0);

  // Forgets the extent. Returns the resource, for a call that changes it.
  const raw::Context& Change() {
    ++changes;
    known.reset();
    return raw;
  }

  raw::Context raw;  // for calls that do not change the extent
  Model model;
  uint32_t page_size;
  // The extent after a short step, so that the next one need not ask for it. Empty as soon as
  // anything else may have changed the context.
  std::optional<Extent> known;
  uint64_t changes = 0;
  uint32_t flights = 0;
  bool is_lent = false;          // the program has the resource and may change it at any time
  std::vector<uint32_t> buffer;  // not run yet
  Turns turns;

  bool is_released = false;
  int idle_guards = 0;
  // The error of a call that returns no Result; the next call that can fail returns it. On a
  // released context, every call does.
  std::string fault;
  Result<void> TakeFault();
};

// A pass or a chain on its way. While it is, the extent of the context is not known.
class Flight {
 public:
  explicit Flight(ContextState& context) : context_(context), is_alone_(context.flights++ == 0) {
    context.Change();
    changes_ = context.changes;
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  ~Flight() { --context_.flights; }

  // Keeps the extent after the pass, unless the context was used by others meanwhile.
  void Land(const Extent& extent) {
    const bool is_untouched = is_alone_ && changes_ == context_.changes;
    if (is_untouched && !context_.is_lent) context_.known = extent;
  }

 private:
  ContextState& context_;
  bool is_alone_;
  uint64_t changes_;
};

// A sampler or probe and the rows that it reads; without rows it gives no slots.
struct Reader {
  std::vector<uint32_t> rows;
  std::variant<Sampler, Probe> what;

  uint32_t SlotCount() const;
};

// Draft tokens and their positions.
struct Drafts {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> positions;
};

struct PassState {
  explicit PassState(std::shared_ptr<ContextState> of)
      : context(std::move(of)), start(context->SeqLen()) {}

  void AddInput(std::span<const uint32_t> more);

  std::shared_ptr<ContextState> context;
  uint32_t start;
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> positions;
  uint32_t scored = 0;  // how many of the last tokens the context must forget again
  std::vector<std::vector<uint32_t>> attention;
  std::vector<uint32_t> mask;
  std::vector<Reader> readers;  // in the order of handle ids
  std::optional<Adapter> adapter;
  std::optional<int64_t> zo_seed;
  std::optional<uint64_t> seed;
  bool engine_drafts = false;
  // Verified after the tokens. The first reader then has a slot more for each that is kept.
  Drafts drafts;
  std::vector<const Matcher*> matchers;  // the engine applies them to every sampler
  std::string fault;                     // found while building, told by Execute
  bool executed = false;
};

// Fails where a number of a sampler or probe is outside its range. The constructors are constexpr,
// so the check comes when the sampler is used.
Result<void> CheckRanges(const Sampler& sampler);
Result<void> CheckRanges(const pie::core::inference::Sampler& sampler);

// Runs the pass; the caller settles. On an error the context is as it was before.
Task<Result<raw::Output>> RunPass(std::shared_ptr<PassState> pass);

// Queues the pass and those that follow it by themselves, to choose `max_tokens` tokens or one of
// `stops`.
Result<raw::Chain> StartChain(const PassState& pass, uint32_t max_tokens,
                              std::span<const uint32_t> stops);

// The output with the slots of each reader found.
Output ToOutput(raw::Output raw, const PassState& pass, std::optional<SampleHandle> auto_sampler);

}  // namespace inferlet::detail
