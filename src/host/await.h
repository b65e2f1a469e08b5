// Await: how a host function waits for work that another thread does.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "host/api.h"
#include "host/engine.h"
#include "host/pending.h"

namespace pie::host {

// The first call runs `begin`, which returns a Result<std::shared_ptr<Pending<T>>>. The bridge
// makes the later calls with the same `wait`; they find the Pending by its ticket. Returns nullopt
// while the guest has to wait. The bridge ignores the result of the host function then, and calls
// it again when the signal has fired.
template <class T, class Begin>
Result<std::optional<T>> Await(Process& process, Wait& wait, Begin begin) {
  auto& calls = process.handles().calls;
  std::shared_ptr<Waitable> call;
  if (wait.has_ticket) {
    call = *PIE_TRY(calls.Get(wait.ticket));
  } else {
    call = PIE_TRY(begin());
    wait.ticket = PIE_TRY(calls.Emplace(call));
    wait.has_ticket = true;
  }
  if (!call->ready()) {
    wait.signal = call->signal.raw();
    return std::nullopt;
  }
  calls.Remove(wait.ticket);
  // A ticket belongs to one call, so the Pending has the type that this call began.
  return PIE_TRY(static_cast<Pending<T>&>(*call).Take());
}

// Runs `work`, which returns a Result<T>, on a thread that may wait for the disk. `calls` names
// such calls in the error of a full queue ("calls for snapshots").
template <class T, class Work>
Result<std::optional<T>> AwaitFiles(Process& process, Wait& wait, std::string_view calls,
                                    Work work) {
  return Await<T>(process, wait, [&] {
    return RunLater<T>(process.engine().file_work(), process.user()->name, calls, std::move(work));
  });
}

// Runs `work`, which returns a Result<T>, on a thread that may compile grammars. The work of a
// guest that ends before its turn is not done: it may take seconds, for which others would wait.
template <class T, class Work>
Result<std::shared_ptr<Pending<T>>> RunGrammarWork(Process& process, Work work) {
  return RunLater<T>(process.engine().grammar_work(), process.user()->name, "grammars",
                     [work = std::move(work)](const Promise<T>& promise) mutable -> Result<T> {
                       if (promise.abandoned())
                         return Fail(Code::kCancelled, "the guest has ended");
                       return work();
                     });
}

}  // namespace pie::host
