// pie:core/runtime
#include "host/api.h"

namespace pie::host {

bool RuntimeVersion(void* guest, Out* out) {
  return Answer(guest, out, [&](Process&) -> Status {
    PutText(out, PIE_VERSION);
    return {};
  });
}

bool RuntimeInstanceId(void* guest, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutText(out, process.id());
    return {};
  });
}

bool RuntimeUsername(void* guest, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutText(out, process.options().username);
    return {};
  });
}

bool RuntimeModels(void* guest, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    for (const LoadedModel& loaded : process.engine().models()) PutBlob(out, loaded.model.name);
    return {};
  });
}

bool RuntimeLaunch(void* guest, Str program, Str input, uint32_t* child, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Process::Options options{.username = process.options().username,
                             .depth = process.options().depth + 1,
                             .token_budget = process.options().token_budget};
    const std::string id = PIE_TRY(process.engine().Resolve(View(program)));
    auto launched = PIE_TRY(process.engine().Launch(id, View(input), std::move(options)));
    launched->CloseInbox();  // a child has no client
    *child = PIE_TRY(process.handles().children.Emplace(std::move(launched)));
    return {};
  });
}

bool ChildGet(void* guest, uint32_t child, uint32_t* state, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    auto exit = (*PIE_TRY(process.handles().children.Get(child)))->exit();
    if (!exit) {
      *state = 0;
      return {};
    }
    *state = exit->kind == wasm::Exit::Kind::kReturned ? 1 : 2;
    PutText(out, exit->text);
    return {};
  });
}

bool ChildPid(void* guest, uint32_t child, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PutText(out, (*PIE_TRY(process.handles().children.Get(child)))->id());
    return {};
  });
}

bool ChildCancel(void* guest, uint32_t child, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    (*PIE_TRY(process.handles().children.Get(child)))->Cancel();
    return {};
  });
}

}  // namespace pie::host
