// pie:core/context
#include "host/api.h"

namespace pie::host {
namespace {

Result<Context*> ContextOf(Process& process, uint32_t handle) {
  Context* context = PIE_TRY(process.handles().contexts.Get(handle));
  PIE_RETURN_IF_ERROR(context->CheckAlive());
  return context;
}

// Becomes the process's own: a handle of it, and its pages are paid for.
Result<uint32_t> Keep(Process& process, std::unique_ptr<Context> context) {
  process.wallet().Own(context->scheduler(), context->sequence());
  return process.handles().contexts.Insert(std::move(context));
}

// Keeps a save that was begun until a later call finds it ended.
Status BeginSaving(Process& process, Wait& wait, Result<std::shared_ptr<Saving>> saving) {
  wait.ticket = PIE_TRY(process.handles().savings.Emplace(PIE_TRY(std::move(saving))));
  wait.has_ticket = true;
  return {};
}

// The name of the snapshot. Waits while it is not on the disk.
Result<std::string> EndSaving(Process& process, Wait& wait) {
  auto& savings = process.handles().savings;
  const std::shared_ptr<Saving> saving = *PIE_TRY(savings.Get(wait.ticket));
  if (!saving->ready.load(std::memory_order_acquire)) {
    wait.signal = saving->signal.raw();
    return {};
  }
  savings.Remove(wait.ticket);
  PIE_RETURN_IF_ERROR(saving->result);
  return saving->name;
}

}  // namespace

Result<uint32_t> ContextCreate(Process& process, uint32_t model) {
  uint32_t* index = PIE_TRY(process.handles().models.Get(model));
  Scheduler* scheduler = process.engine().models()[*index].scheduler.get();
  const CacheSalt salt = process.engine().SaltOf(process.options().username);
  auto made = std::make_unique<Context>(scheduler, *index, scheduler->Create(salt), Extent{});
  return Keep(process, std::move(made));
}

Result<uint32_t> ContextOpen(Process& process, uint32_t model, std::string_view name) {
  uint32_t* index = PIE_TRY(process.handles().models.Get(model));
  const std::string& user = process.options().username;
  const CacheSalt salt = process.engine().SaltOf(user);
  auto opened = PIE_TRY(process.engine().snapshots().Open(user, *index, name, salt));
  return Keep(process, std::move(opened));
}

Result<uint32_t> ContextTake(Process& process, uint32_t model, std::string_view name) {
  uint32_t* index = PIE_TRY(process.handles().models.Get(model));
  const std::string& user = process.options().username;
  const CacheSalt salt = process.engine().SaltOf(user);
  auto taken = PIE_TRY(process.engine().snapshots().Take(user, *index, name, salt));
  return Keep(process, std::move(taken));
}

Status ContextDelete(Process& process, uint32_t model, std::string_view name) {
  uint32_t* index = PIE_TRY(process.handles().models.Get(model));
  return process.engine().snapshots().Delete(process.options().username, *index, name);
}

Result<uint32_t> ContextFork(Process& process, uint32_t context) {
  auto forked = PIE_TRY(PIE_TRY(ContextOf(process, context))->Fork());
  return Keep(process, std::move(forked));
}

Status ContextSave(Process& process, uint32_t context, std::string_view name, Wait& wait) {
  if (!wait.has_ticket) {
    Context* saved = PIE_TRY(ContextOf(process, context));
    const std::string& user = process.options().username;
    PIE_RETURN_IF_ERROR(
        BeginSaving(process, wait, process.engine().snapshots().Save(user, name, *saved)));
  }
  PIE_RETURN_IF_ERROR(EndSaving(process, wait));
  return {};
}

Result<std::string> ContextSnapshot(Process& process, uint32_t context, Wait& wait) {
  if (!wait.has_ticket) {
    Context* saved = PIE_TRY(ContextOf(process, context));
    const std::string& user = process.options().username;
    PIE_RETURN_IF_ERROR(
        BeginSaving(process, wait, process.engine().snapshots().SaveUnnamed(user, *saved)));
  }
  return EndSaving(process, wait);
}

Status ContextDestroy(Process& process, uint32_t context) {
  PIE_TRY(process.handles().contexts.Get(context))->Destroy();
  return {};
}

Result<uint32_t> ContextTokensPerPage(Process& process, uint32_t context) {
  return PIE_TRY(process.handles().contexts.Get(context))->page_tokens();
}

Result<uint32_t> ContextModel(Process& process, uint32_t context) {
  uint32_t index = PIE_TRY(process.handles().contexts.Get(context))->model();
  return process.handles().models.Emplace(index);
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
  Context* bidder = PIE_TRY(ContextOf(process, context));
  if (!(value >= 0)) return Fail(Code::kInvalid, "a bid is a number of credits, 0 or more");
  bidder->scheduler().Bid(bidder->sequence(), value);
  return {};
}

Status ContextDrop(Process& process, uint32_t context) {
  process.handles().contexts.Remove(context);
  return {};
}

}  // namespace pie::host
