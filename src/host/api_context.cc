// pie:core/context, pie:plus/bidding and pie:plus/caching.
#include <cmath>
#include <variant>

#include "host/api.h"
#include "host/await.h"
#include "host/execute.h"

namespace pie::host {
namespace {

Result<Context*> ContextOf(Process& process, uint32_t handle) {
  Context* context = PIE_TRY(process.handles().contexts.Get(handle));
  PIE_RETURN_IF_ERROR(context->CheckAlive());
  return context;
}

// Gives the process a handle of the context. The process pays for the context's pages from now on.
Result<uint32_t> Keep(Process& process, std::unique_ptr<Context> context) {
  Charge charge = ChargeTo(process.user(), &User::contexts);
  if (!charge.Grow(1)) {
    const ByteBudget& own = process.user()->contexts;
    return Fail(
        Code::kExhausted,
        "context limit: your inferlets hold {} contexts, and the inferlets of all users hold "
        "{} of {}",
        own.used(), own.whole().used(), own.whole().limit());
  }
  context->Count(std::move(charge));
  context->PayRowsFrom(process.NewCharge());
  process.wallet().Own(context->scheduler(), context->sequence());
  return process.handles().contexts.Insert(std::move(context));
}

// Gives the process a handle of a context that was opened from a file.
Result<uint32_t> KeepOpened(Process& process, std::unique_ptr<Context> context) {
  Charge charge = ChargeTo(process.user(), &User::opened);
  if (!charge.Grow(1)) {
    const ByteBudget& own = process.user()->opened;
    return Fail(Code::kExhausted,
                "your inferlets hold {} contexts that were opened from files, and those of all "
                "users {} of {}; drop some",
                own.used(), own.whole().used(), own.whole().limit());
  }
  // A file may hold the masks of a whole context, and can be opened many times. So they are
  // charged.
  Charge rows = process.NewCharge();
  if (!rows.Grow(context->stored_bytes())) {
    return Fail(Code::kExhausted,
                "memory limit: the tokens and attention masks of the snapshot take {} MiB; drop "
                "some contexts",
                (context->stored_bytes() >> 20) + 1);
  }
  context->CountOpened(std::move(charge), std::move(rows));
  return Keep(process, std::move(context));
}

template <class T, class Work>
Result<std::optional<T>> OnFiles(Process& process, Wait& wait, Work work) {
  return AwaitFiles<T>(process, wait, "calls for snapshots", std::move(work));
}

Status CheckBid(double value) {
  if (value >= 0) return {};
  return Fail(Code::kInvalid, "a bid must be a number of credits, 0 or more, not {}", value);
}

}  // namespace

Result<uint32_t> ContextCreate(Process& process, uint32_t model) {
  const uint32_t index = PIE_TRY(ModelIndex(process, model));
  Scheduler* scheduler = process.engine().models()[index].scheduler.get();
  const CacheSalt salt = process.engine().SaltOf(process.options().username);
  auto made = std::make_unique<Context>(scheduler, index, scheduler->Create(salt), Extent{});
  return Keep(process, std::move(made));
}

Result<uint32_t> ContextOpen(Process& process, uint32_t model, std::string_view name, Wait& wait) {
  PIE_RETURN_IF_ERROR(CheckName(name));
  const uint32_t index = PIE_TRY(ModelIndex(process, model));
  auto opened = PIE_TRY(OnFiles<std::unique_ptr<Context>>(
      process, wait,
      [&engine = process.engine(), user = process.options().username, index,
       name = std::string(name)] {
        return engine.snapshots().Open(user, index, name, engine.SaltOf(user));
      }));
  return opened ? KeepOpened(process, *std::move(opened)) : 0;
}

Result<uint32_t> ContextTake(Process& process, uint32_t model, std::string_view name, Wait& wait) {
  PIE_RETURN_IF_ERROR(CheckName(name));
  const uint32_t index = PIE_TRY(ModelIndex(process, model));
  auto taken = PIE_TRY(OnFiles<std::unique_ptr<Context>>(
      process, wait,
      [&engine = process.engine(), user = process.options().username, index,
       name = std::string(name)] {
        return engine.snapshots().Take(user, index, name, engine.SaltOf(user));
      }));
  return taken ? KeepOpened(process, *std::move(taken)) : 0;
}

Status ContextDelete(Process& process, uint32_t model, std::string_view name, Wait& wait) {
  PIE_RETURN_IF_ERROR(CheckName(name));
  const uint32_t index = PIE_TRY(ModelIndex(process, model));
  const auto deleted =
      OnFiles<std::monostate>(process, wait,
                              [&engine = process.engine(), user = process.options().username, index,
                               name = std::string(name)]() -> Result<std::monostate> {
                                PIE_RETURN_IF_ERROR(engine.snapshots().Delete(user, index, name));
                                return std::monostate();
                              });
  return deleted ? Status() : std::unexpected(deleted.error());
}

Result<uint32_t> ContextFork(Process& process, uint32_t context) {
  auto forked = PIE_TRY(PIE_TRY(ContextOf(process, context))->Fork());
  return Keep(process, std::move(forked));
}

Status ContextSave(Process& process, uint32_t context, std::string_view name, Wait& wait) {
  PIE_RETURN_IF_ERROR(Await<std::string>(process, wait, [&]() -> Result<std::shared_ptr<Saving>> {
    const Context* saved = PIE_TRY(ContextOf(process, context));
    return process.engine().snapshots().Save(process.options().username, name, *saved);
  }));
  return {};
}

Result<std::string> ContextSnapshot(Process& process, uint32_t context, Wait& wait) {
  auto name = PIE_TRY(Await<std::string>(process, wait, [&]() -> Result<std::shared_ptr<Saving>> {
    const Context* saved = PIE_TRY(ContextOf(process, context));
    return process.engine().snapshots().SaveUnnamed(process.options().username, *saved);
  }));
  return std::move(name).value_or("");
}

Status ContextDestroy(Process& process, uint32_t context) {
  PIE_TRY(process.handles().contexts.Get(context))->Destroy();
  return {};
}

Result<uint32_t> ContextTokensPerPage(Process& process, uint32_t context) {
  return PIE_TRY(process.handles().contexts.Get(context))->page_tokens();
}

Result<uint32_t> ContextModel(Process& process, uint32_t context) {
  return NewModel(process, PIE_TRY(process.handles().contexts.Get(context))->model());
}

Result<uint32_t> ContextCommittedPageCount(Process& process, uint32_t context) {
  return PIE_TRY(ContextOf(process, context))->extent().committed_pages;
}

Result<uint32_t> ContextWorkingPageCount(Process& process, uint32_t context) {
  return PIE_TRY(ContextOf(process, context))->extent().working_pages;
}

Result<uint32_t> ContextWorkingPageTokenCount(Process& process, uint32_t context) {
  return PIE_TRY(ContextOf(process, context))->extent().working_tokens;
}

Status ContextCommitWorkingPages(Process& process, uint32_t context, uint32_t n) {
  return PIE_TRY(ContextOf(process, context))->Commit(n);
}

Status ContextReserveWorkingPages(Process& process, uint32_t context, uint32_t n) {
  return PIE_TRY(ContextOf(process, context))->Reserve(n);
}

Status ContextReleaseWorkingPages(Process& process, uint32_t context, uint32_t n) {
  return PIE_TRY(ContextOf(process, context))->Release(n);
}

Status ContextTruncateWorkingPageTokens(Process& process, uint32_t context, uint32_t n) {
  return PIE_TRY(ContextOf(process, context))->Truncate(n);
}

Status ContextSuspend(Process& process, uint32_t context) {
  return PIE_TRY(ContextOf(process, context))->Suspend();
}

Status ContextBid(Process& process, uint32_t context, double value) {
  PIE_RETURN_IF_ERROR(CheckBid(value));
  PIE_TRY(ContextOf(process, context))->Bid(value);
  return {};
}

Status BiddingExpect(Process& process, uint32_t context, std::optional<double> steps,
                     double variation) {
  if (steps && !(*steps >= 0 && std::isfinite(*steps))) {
    return Fail(Code::kInvalid, "the expected steps must be a number, 0 or more, not {}", *steps);
  }
  if (!(variation >= 0 && std::isfinite(variation))) {
    return Fail(Code::kInvalid, "the variation must be a number, 0 or more, not {}", variation);
  }
  PIE_TRY(ContextOf(process, context))->Expect(steps, variation);
  return {};
}

Status BiddingOnce(Process& process, uint32_t context, double value) {
  PIE_RETURN_IF_ERROR(CheckBid(value));
  PIE_TRY(ContextOf(process, context))->BidOnce(value);
  return {};
}

Status BiddingIdle(Process& process, uint32_t context, bool idle) {
  PIE_TRY(ContextOf(process, context))->SetIdle(idle);
  return {};
}

Result<uint64_t> CachingCachedTokens(Process& process, uint32_t context) {
  return PIE_TRY(process.handles().contexts.Get(context))->cached_tokens();
}

Status ContextDrop(Process& process, uint32_t context) {
  process.handles().contexts.Remove(context);
  return {};
}

}  // namespace pie::host
