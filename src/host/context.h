// Context: a guest's view of a token sequence. Counts pages and tokens itself, checks every request
// against those counts, and only then passes it on to the step thread, which follows in the same
// order. So no call here waits. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "sched/scheduler.h"

namespace pie::host {

// How many pages and tokens a context has; what a snapshot remembers of it.
struct Extent {
  uint32_t committed_pages = 0;
  uint32_t working_pages = 0;
  uint32_t working_tokens = 0;
};

class Context {
 public:
  Context(Scheduler* scheduler, uint32_t model, SequenceId sequence, Extent extent)
      : scheduler_(scheduler), model_(model), sequence_(sequence), extent_(extent) {}
  ~Context() { Destroy(); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  uint32_t model() const { return model_; }  // index of the engine's model
  SequenceId sequence() const { return sequence_; }
  const Extent& extent() const { return extent_; }
  uint32_t page_tokens() const { return scheduler_->info().page_tokens; }
  uint32_t tokens() const {
    return extent_.committed_pages * page_tokens() + extent_.working_tokens;
  }

  Status CheckAlive() const;
  Result<std::unique_ptr<Context>> Fork() const;
  // A sequence of its own with the present content, for a snapshot.
  Result<SequenceId> Copy() const;
  Status Commit(uint32_t pages);
  Status Reserve(uint32_t pages);
  Status Release(uint32_t pages);
  Status Truncate(uint32_t tokens);
  void Destroy();

  // Queues a pass whose tokens extend this context.
  Status Execute(Forward forward);

 private:
  Scheduler* scheduler_;
  uint32_t model_;
  SequenceId sequence_;
  Extent extent_;
  bool destroyed_ = false;
};

}  // namespace pie::host
