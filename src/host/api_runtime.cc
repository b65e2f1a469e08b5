// pie:core/runtime
#include "host/api.h"
#include "host/await.h"
#include "host/execute.h"

namespace pie::host {

Result<std::string> RuntimeVersion(Process&) {
  return PIE_VERSION;
}

Result<std::string> RuntimeInstanceId(Process& process) {
  return process.id();
}

Result<std::string> RuntimeUsername(Process& process) {
  return process.options().username;
}

Result<std::vector<std::string>> RuntimeModels(Process& process) {
  std::vector<std::string> names;
  for (const LoadedModel& loaded : process.engine().models()) names.push_back(loaded.model.name);
  return names;
}

Result<uint32_t> RuntimeLaunch(Process& process, std::string_view program, std::string_view input,
                               Wait& wait) {
  PIE_RETURN_IF_ERROR(CheckName(program));
  using Child = std::shared_ptr<Process>;
  auto child = PIE_TRY(Await<Child>(process, wait, [&] {
    return process.engine().LaunchLater(std::string(program), std::string(input),
                                        {.username = process.options().username,
                                         .depth = process.options().depth + 1,
                                         .parent = process.weak_from_this(),
                                         .token_budget = process.options().token_budget,
                                         .mcp = process.options().mcp});
  }));
  return child ? process.handles().children.Emplace(*std::move(child)) : 0;
}

Result<std::optional<std::expected<std::string, std::string>>> ChildGet(Process& process,
                                                                        uint32_t child) {
  auto exit = (*PIE_TRY(process.handles().children.Get(child)))->exit();
  if (!exit) return std::nullopt;
  if (exit->kind == wasm::Exit::Kind::kReturned) return std::move(exit->text);
  return std::expected<std::string, std::string>(std::unexpect, std::move(exit->text));
}

Result<std::string> ChildPid(Process& process, uint32_t child) {
  return (*PIE_TRY(process.handles().children.Get(child)))->id();
}

Result<const pie_bridge::Signal*> ChildPollable(Process& process, uint32_t child) {
  return (*PIE_TRY(process.handles().children.Get(child)))->exit_signal().raw();
}

Status ChildCancel(Process& process, uint32_t child) {
  (*PIE_TRY(process.handles().children.Get(child)))->Cancel();
  return {};
}

Status ChildDrop(Process& process, uint32_t child) {
  if (auto found = process.handles().children.Get(child)) (**found)->Detach();
  process.handles().children.Remove(child);
  return {};
}

}  // namespace pie::host
