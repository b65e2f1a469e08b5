// The programs of an engine: their compilation and their names.
#include <mutex>
#include <utility>

#include "host/engine.h"

namespace pie::host {

Status Engine::AddProgram(const Manifest& manifest, std::string_view component,
                          const std::function<void()>& on_compile) {
  KeepProgram(manifest, PIE_TRY(Compile(component, "", Compiling::kAllowed, on_compile)));
  return {};
}

Result<std::shared_ptr<wasm::Program>> Engine::Compile(std::string_view component,
                                                       std::string_view user, Compiling compiling,
                                                       const std::function<void()>& on_compile) {
  if (compiling == Compiling::kRefused) return runtime_->LoadCompiled(component);
  auto program = PIE_TRY(runtime_->Load(component, user, on_compile));
  if (program->wants_optimising()) OptimiseLater(program, component, user);
  return program;
}

// The queue keeps a copy of the component, which is charged to the user. If there is no room for
// the copy, the program keeps the code that it has, and is optimised when it is loaded again.
void Engine::OptimiseLater(const std::shared_ptr<wasm::Program>& program,
                           std::string_view component, std::string_view user) {
  Charge charge = ChargeTo(users_.Of(user), &User::memory);
  if (!charge.Grow(component.size())) return;
  {
    std::lock_guard lock(mutex_);
    optimising_.insert(program.get());
  }
  // The guard is destroyed with the job, also if the job never runs. The program is then no longer
  // being optimised.
  std::shared_ptr<wasm::Program> guard(program.get(), [this, program](wasm::Program* optimised) {
    std::lock_guard lock(mutex_);
    optimising_.erase(optimised);
  });
  compile_work_.Push(user, [guard = std::move(guard), component = std::string(component),
                            owner = std::string(user),
                            charge = std::move(charge)] { guard->Optimise(component, owner); });
}

void Engine::KeepProgram(const Manifest& manifest, std::shared_ptr<wasm::Program> program) {
  std::lock_guard lock(mutex_);
  latest_[manifest.name] = manifest.id();
  std::swap(programs_[manifest.id()], program);
}

void Engine::StopCompiling() {
  runtime_->StopCompilers();
  compile_work_.Stop();
}

void Engine::RemoveProgram(std::string_view id) {
  std::shared_ptr<wasm::Program> removed;  // destroyed after unlocking
  std::lock_guard lock(mutex_);
  const auto found = programs_.find(id);
  if (found == programs_.end()) return;
  removed = std::move(found->second);
  programs_.erase(found);
  std::erase_if(latest_, [id](const auto& entry) { return entry.second == id; });
}

Result<std::shared_ptr<wasm::Program>> Engine::Find(std::string_view program, std::string* id) {
  std::lock_guard lock(mutex_);
  auto latest = latest_.find(program);
  auto found = programs_.find(latest != latest_.end() ? std::string_view(latest->second) : program);
  if (found == programs_.end()) {
    return Fail(Code::kNotFound, "no program is named '{}'; install it first", program);
  }
  *id = found->first;
  return found->second;
}

bool Engine::Optimising(std::string_view program) {
  std::string id;
  auto found = Find(program, &id);
  std::lock_guard lock(mutex_);
  return found && optimising_.contains(found->get());
}

}  // namespace pie::host
