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

}  // namespace

bool ContextCreate(void* guest, uint32_t model, uint32_t* context, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    uint32_t* index = PIE_TRY(process.handles().models.Get(model));
    Scheduler* scheduler = process.engine().models()[*index].scheduler.get();
    const CacheSalt salt = process.engine().SaltOf(process.options().username);
    auto made = std::make_unique<Context>(scheduler, *index, scheduler->Create(salt), Extent{});
    *context = PIE_TRY(Keep(process, std::move(made)));
    return {};
  });
}

bool ContextOpen(void* guest, uint32_t model, Str name, uint32_t* context, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    uint32_t* index = PIE_TRY(process.handles().models.Get(model));
    const std::string& user = process.options().username;
    const CacheSalt salt = process.engine().SaltOf(user);
    auto opened = PIE_TRY(process.engine().snapshots().Open(user, *index, View(name), salt));
    *context = PIE_TRY(Keep(process, std::move(opened)));
    return {};
  });
}

bool ContextTake(void* guest, uint32_t model, Str name, uint32_t* context, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    uint32_t* index = PIE_TRY(process.handles().models.Get(model));
    const std::string& user = process.options().username;
    const CacheSalt salt = process.engine().SaltOf(user);
    auto taken = PIE_TRY(process.engine().snapshots().Take(user, *index, View(name), salt));
    *context = PIE_TRY(Keep(process, std::move(taken)));
    return {};
  });
}

bool ContextDelete(void* guest, uint32_t model, Str name, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    uint32_t* index = PIE_TRY(process.handles().models.Get(model));
    return process.engine().snapshots().Delete(process.options().username, *index, View(name));
  });
}

bool ContextFork(void* guest, uint32_t context, uint32_t* child, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    auto forked = PIE_TRY(PIE_TRY(ContextOf(process, context))->Fork());
    *child = PIE_TRY(Keep(process, std::move(forked)));
    return {};
  });
}

bool ContextSave(void* guest, uint32_t context, Str name, uint32_t* saving, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Context* saved = PIE_TRY(ContextOf(process, context));
    auto begun =
        PIE_TRY(process.engine().snapshots().Save(process.options().username, View(name), *saved));
    *saving = PIE_TRY(process.handles().savings.Emplace(std::move(begun)));
    return {};
  });
}

bool ContextSnapshot(void* guest, uint32_t context, uint32_t* saving, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Context* saved = PIE_TRY(ContextOf(process, context));
    auto begun =
        PIE_TRY(process.engine().snapshots().SaveUnnamed(process.options().username, *saved));
    *saving = PIE_TRY(process.handles().savings.Emplace(std::move(begun)));
    return {};
  });
}

// How a save ended, and under which name; asked once its signal has fired.
bool ContextSaved(void* guest, uint32_t saving, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    const std::shared_ptr<Saving> ended = *PIE_TRY(process.handles().savings.Get(saving));
    process.handles().savings.Remove(saving);
    if (!ended->ready.load(std::memory_order_acquire)) {
      return Fail(Code::kInternal, "the snapshot is still being saved");
    }
    PIE_RETURN_IF_ERROR(ended->result);
    PutText(out, ended->name);
    return {};
  });
}

bool ContextDestroy(void* guest, uint32_t context, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_TRY(process.handles().contexts.Get(context))->Destroy();
    return {};
  });
}

bool ContextTokensPerPage(void* guest, uint32_t context, uint32_t* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    *value = PIE_TRY(process.handles().contexts.Get(context))->page_tokens();
    return {};
  });
}

bool ContextModel(void* guest, uint32_t context, uint32_t* model, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    uint32_t index = PIE_TRY(process.handles().contexts.Get(context))->model();
    *model = PIE_TRY(process.handles().models.Emplace(index));
    return {};
  });
}

bool ContextCommittedPageCount(void* guest, uint32_t context, uint32_t* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    *value = PIE_TRY(ContextOf(process, context))->extent().committed_pages;
    return {};
  });
}

bool ContextWorkingPageCount(void* guest, uint32_t context, uint32_t* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    *value = PIE_TRY(ContextOf(process, context))->extent().working_pages;
    return {};
  });
}

bool ContextWorkingPageTokenCount(void* guest, uint32_t context, uint32_t* value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    *value = PIE_TRY(ContextOf(process, context))->extent().working_tokens;
    return {};
  });
}

bool ContextCommitWorkingPages(void* guest, uint32_t context, uint32_t n, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    return PIE_TRY(ContextOf(process, context))->Commit(n);
  });
}

bool ContextReserveWorkingPages(void* guest, uint32_t context, uint32_t n, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    return PIE_TRY(ContextOf(process, context))->Reserve(n);
  });
}

bool ContextReleaseWorkingPages(void* guest, uint32_t context, uint32_t n, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    return PIE_TRY(ContextOf(process, context))->Release(n);
  });
}

bool ContextTruncateWorkingPageTokens(void* guest, uint32_t context, uint32_t n, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    return PIE_TRY(ContextOf(process, context))->Truncate(n);
  });
}

bool ContextSuspend(void* guest, uint32_t context, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    return PIE_TRY(ContextOf(process, context))->Suspend();
  });
}

bool ContextBid(void* guest, uint32_t context, double value, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Context* bidder = PIE_TRY(ContextOf(process, context));
    if (!(value >= 0)) return Fail(Code::kInvalid, "a bid is a number of credits, 0 or more");
    bidder->scheduler().Bid(bidder->sequence(), value);
    return {};
  });
}

}  // namespace pie::host
