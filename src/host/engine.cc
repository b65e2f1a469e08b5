#include "host/engine.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/random.h"
#include "host/guests_meanwhile.h"
#include "host/hash.h"
#include "host/host_table.h"

namespace pie::host {

namespace {

// A launch may wait for the compiler, which works for one launch at a time; launches that need no
// compiler go on meanwhile.
constexpr size_t kLaunchThreads = 4;
constexpr size_t kFileThreads = 2;
constexpr size_t kGrammarThreads = 2;
constexpr size_t kQueuedMasks = 4'096;  // a device makes those that find no place
constexpr size_t kRecentUsers = 1'024;

std::unique_ptr<Snapshots> MakeSnapshots(const EngineOptions& options) {
  if (options.snapshot_root.empty()) return std::make_unique<Snapshots>(options.limits);
  std::vector<Snapshots::ModelRef> models;
  for (const LoadedModel& loaded : options.models) {
    models.push_back({loaded.model.name, loaded.scheduler.get()});
  }
  return std::make_unique<Snapshots>(options.limits, options.snapshot_root, std::move(models));
}

std::unique_ptr<Adapters> MakeAdapters(const EngineOptions& options) {
  std::vector<Adapters::ModelRef> models;
  for (const LoadedModel& loaded : options.models) {
    models.push_back({loaded.model.name, loaded.scheduler.get()});
  }
  return std::make_unique<Adapters>(options.limits, options.adapter_root, std::move(models));
}

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      hub_(options_.limits),
      snapshots_(MakeSnapshots(options_)),
      adapters_(MakeAdapters(options_)),
      inputs_(std::make_shared<ByteBudget>(options_.limits.max_inputs_bytes)),
      file_work_("pie-files", kFileThreads, options_.limits.max_queued_calls),
      launch_work_("pie-launch", kLaunchThreads, options_.limits.max_queued_calls),
      grammar_work_("pie-grammar", kGrammarThreads, options_.limits.max_queued_calls),
      mask_work_("pie-masks", 1, kQueuedMasks) {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  id_ = fmt::format("{:08x}", static_cast<uint32_t>(Mix(static_cast<uint64_t>(now), getpid(), 0)));
}

Result<std::unique_ptr<Engine>> Engine::Start(EngineOptions options) {
  if (options.models.empty()) return Fail(Code::kInvalid, "the engine needs a model");
  options.runtime.host = &HostFunctions();
  for (LoadedModel& loaded : options.models) loaded.vocabulary.emplace(loaded.model);
  auto engine = std::unique_ptr<Engine>(new Engine(std::move(options)));
  if (engine->options_.allow_fs || !engine->options_.data_root.empty()) {
    engine->folders_ = std::make_unique<FolderWatch>();
  }
  engine->runtime_ = PIE_TRY(wasm::Runtime::Start(engine->options_.runtime));
  for (LoadedModel& loaded : engine->options_.models) {
    loaded.scheduler->SetMeanwhile(std::make_shared<GuestsMeanwhile>(engine->runtime_->turns()));
  }
  return engine;
}

Engine::~Engine() {
  launch_work_.Stop();  // nothing is launched from here on
  file_work_.Stop();
  grammar_work_.Stop();
  std::vector<std::shared_ptr<Process>> running;
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, process] : running_) running.push_back(process->shared_from_this());
    programs_.clear();
  }
  for (auto& process : running) process->Cancel();
  folders_.reset();
  running.clear();
  runtime_.reset();  // waits for the last exit
}

Status Engine::AddProgram(const Manifest& manifest, std::string_view component,
                          const std::function<void()>& on_compile) {
  auto program = PIE_TRY(runtime_->Load(component, on_compile));
  std::lock_guard lock(mutex_);
  latest_[manifest.name] = manifest.id();
  programs_[manifest.id()] = std::move(program);
  return {};
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

CacheSalt Engine::SaltOf(std::string_view user) const {
  if (options_.shared_prefixes) return {};
  const std::array<uint8_t, 32> hash = Blake3(user);
  CacheSalt salt;
  std::memcpy(&salt.high, hash.data(), sizeof(salt.high));
  std::memcpy(&salt.low, hash.data() + sizeof(salt.high), sizeof(salt.low));
  return salt;
}

std::shared_ptr<RecentTokens> Engine::RecentOf(std::string_view user, uint32_t model) {
  const std::lock_guard lock(mutex_);
  if (recent_.size() >= kRecentUsers) {
    std::erase_if(recent_, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  std::shared_ptr<RecentTokens>& recent = recent_[{std::string(user), model}];
  if (!recent) recent = std::make_shared<RecentTokens>();
  return recent;
}

bool Engine::Optimising(std::string_view program) {
  std::string id;
  auto found = Find(program, &id);
  return found && (*found)->optimising();
}

Result<std::string> Engine::MakeScratch(InstanceId id) const {
  return MakeFolder(options_.scratch_root, fmt::format("{}-{}", id_, id.value));
}

Result<std::string> Engine::MakeData(std::string_view user) const {
  return MakeFolder(options_.data_root, FolderName(user));
}

Result<Charge> Engine::ChargeInput(size_t bytes) const {
  if (bytes > limits().max_input_bytes) {
    return Fail(Code::kExhausted, "the input has {} bytes; at most {} MiB are allowed", bytes,
                limits().max_input_bytes >> 20);
  }
  Charge charge(inputs_);
  if (!charge.Grow(bytes)) {
    return Fail(Code::kExhausted,
                "the inputs of all running inferlets have {} MiB already; try again later",
                inputs_->used() >> 20);
  }
  return charge;
}

Result<std::shared_ptr<Process>> Engine::Launch(std::string_view program, std::string_view input,
                                                Process::Options options) {
  return Start(program, PIE_TRY(ChargeInput(input.size())), std::move(options), Run(input));
}

Status Engine::CheckServes(std::string_view program) {
  std::string id;
  const auto code = PIE_TRY(Find(program, &id));
  if (code->serves()) return {};
  return Fail(Code::kInvalid,
              "{} answers no HTTP requests: it does not export wasi:http/incoming-handler", id);
}

Result<std::shared_ptr<Process>> Engine::Serve(std::string_view program,
                                               const wasm::HttpRequest& request,
                                               Process::Options options) {
  PIE_RETURN_IF_ERROR(CheckServes(program));
  Charge charge = PIE_TRY(ChargeInput(request.headers.size() + request.input.size()));
  auto begin = [&](wasm::Program& code, Process* process,
                   const Folders& folders) -> Result<std::unique_ptr<wasm::Instance>> {
    return code.Serve(process, request, folders.first, folders.second);
  };
  auto process = PIE_TRY(Start(program, std::move(charge), std::move(options), begin));
  process->CloseInbox();  // it has no session
  return process;
}

Engine::Begin Engine::Run(std::string_view input) {
  return [input](wasm::Program& code, Process* process,
                 const Folders& folders) -> Result<std::unique_ptr<wasm::Instance>> {
    if (!code.runs()) {
      return Fail(Code::kInvalid,
                  "{} is an HTTP inferlet: it has no `run` function to call. Reach it under "
                  "/apps/ of a server, or start it with launch_daemon",
                  process->options().program);
    }
    return code.Launch(process, input, folders.first, folders.second);
  };
}

Result<std::shared_ptr<Engine::Launching>> Engine::LaunchLater(std::string program,
                                                               std::string input,
                                                               Process::Options options) {
  Charge charge = PIE_TRY(ChargeInput(input.size()));
  return RunLater<std::shared_ptr<Process>>(
      launch_work_, "launches",
      [this, program = std::move(program), input = std::move(input), charge = std::move(charge),
       options = std::move(options)]() mutable -> Result<std::shared_ptr<Process>> {
        if (resolver_) program = PIE_TRY(resolver_(program));
        auto process = PIE_TRY(Start(program, std::move(charge), std::move(options), Run(input)));
        process->CloseInbox();  // no client will write to it
        return process;
      });
}

Result<std::shared_ptr<Process>> Engine::Start(std::string_view program, Charge charge,
                                               Process::Options options, const Begin& begin) {
  if (options.depth > limits().max_launch_depth) {
    return Fail(Code::kExhausted, "inferlets launch one another {} deep; {} is the limit",
                options.depth, limits().max_launch_depth);
  }
  if (options.depth == 0 && !options.token_budget && options_.default_token_limit > 0) {
    options.token_budget = std::make_shared<ByteBudget>(options_.default_token_limit);
  }
  auto code = PIE_TRY(Find(program, &options.program));
  InstanceId id{next_instance_++};
  auto process = std::make_shared<Process>(this, id, std::move(options));
  process->input_ = std::move(charge);
  {
    std::lock_guard lock(mutex_);
    if (running_.size() >= limits().max_processes) {
      return Fail(Code::kExhausted, "{} inferlets run or wait already; try again later",
                  running_.size());
    }
    running_[id.value] = process.get();
  }
  if (options_.allow_fs) {
    auto scratch = MakeScratch(id);
    if (!scratch) {
      Forget(*process);
      return std::unexpected(scratch.error());
    }
    process->scratch_dir_ = *std::move(scratch);
    folders_->Watch(process, process->scratch_dir_, "/scratch", limits().max_scratch_bytes);
  }
  std::string data;
  if (!options_.data_root.empty()) {
    auto made = MakeData(process->options_.username);
    if (!made) {
      Forget(*process);
      return std::unexpected(made.error());
    }
    data = *std::move(made);
    process->data_dir_ = data;
    folders_->Watch(process, data, "/data", limits().max_data_bytes);
  }
  // It may end before Launch returns: it keeps itself alive, and forgets itself at its exit.
  process->self_ = process;
  auto instance =
      begin(*code, process.get(),
            {{process->scratch_dir_, limits().max_scratch_bytes}, {data, limits().max_data_bytes}});
  if (!instance) {
    process->self_.reset();
    Forget(*process);
    std::error_code ignored;
    if (!process->scratch_dir_.empty()) {
      std::filesystem::remove_all(process->scratch_dir_, ignored);
    }
    return std::unexpected(instance.error());
  }
  std::lock_guard lock(process->mutex_);
  if (process->cancelled_) (*instance)->Cancel();
  process->instance_ = *std::move(instance);
  return process;
}

void Engine::Forget(const Process& process) {
  std::lock_guard lock(mutex_);
  running_.erase(process.id_.value);
}

EngineStats Engine::stats() {
  EngineStats stats;
  stats.instances = runtime_->live_instances();
  stats.handles = live_handles_.load();
  stats.snapshots = snapshots_->size();
  stats.topics = hub_.topics();
  for (auto& loaded : options_.models) {
    SchedulerStats scheduler = loaded.scheduler->stats();
    stats.sequences += scheduler.sequences;
    stats.pages += scheduler.pages_used;
  }
  return stats;
}

bool Engine::WaitIdle(int timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (runtime_->live_instances() > 0) {  // one that has just ended leaves a moment later
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  for (auto& loaded : options_.models) {
    if (!loaded.scheduler->WaitIdle(timeout_ms)) return false;
  }
  return true;
}

}  // namespace pie::host
