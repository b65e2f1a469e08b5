#include "host/engine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "base/random.h"
#include "host/guests_meanwhile.h"
#include "host/hash.h"
#include "host/host_table.h"

namespace pie::host {

namespace {

constexpr size_t kLaunchThreads = 8;
constexpr size_t kCompilers = 4;  // each takes up to CompileLimits::memory_bytes
constexpr size_t kFileThreads = 4;
// One user may have one of them, because two grammars at most are compiled at the same time.
constexpr size_t kGrammarThreads = 2;
constexpr size_t kRulesThreads = 2;
constexpr size_t kQueuedMasks = 4'096;  // if the queue is full, the device makes the mask
constexpr size_t kRecentUsers = 1'024;

std::vector<ModelRef> ModelsOf(const EngineOptions& options) {
  std::vector<ModelRef> models;
  for (const LoadedModel& loaded : options.models) {
    models.push_back({loaded.model.name, loaded.scheduler.get()});
  }
  return models;
}

std::unique_ptr<Snapshots> MakeSnapshots(const EngineOptions& options, Adapters& adapters) {
  if (options.snapshot_root.empty()) return std::make_unique<Snapshots>(options.limits);
  return std::make_unique<Snapshots>(options.limits, options.snapshot_root, ModelsOf(options),
                                     &adapters);
}

std::unique_ptr<Adapters> MakeAdapters(const EngineOptions& options) {
  return std::make_unique<Adapters>(options.limits, options.adapter_root, ModelsOf(options));
}

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      users_(options_.limits, options_.several_users),
      places_(options_.runtime.max_instances, users_.share()),
      hub_(options_.limits),
      adapters_(MakeAdapters(options_)),
      snapshots_(MakeSnapshots(options_, *adapters_)),
      file_work_("pie-files", kFileThreads, options_.limits.max_queued_calls),
      launch_work_("pie-launch", kLaunchThreads, options_.limits.max_queued_calls),
      compile_work_("pie-compile", kCompilers, options_.limits.max_queued_calls),
      grammar_work_("pie-grammar", kGrammarThreads, options_.limits.max_queued_calls),
      mask_work_("pie-masks", 1, kQueuedMasks),
      rules_work_("pie-rules", kRulesThreads, options_.limits.max_passes) {
  for (const LoadedModel& loaded : options_.models) {
    if (loaded.draft_scheduler != nullptr) continue;
    schedulers_.push_back(loaded.scheduler);
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  id_ = fmt::format("{:08x}", static_cast<uint32_t>(Mix(static_cast<uint64_t>(now), getpid(), 0)));
}

Result<std::unique_ptr<Engine>> Engine::Start(EngineOptions options) {
  if (options.models.empty()) return Fail(Code::kInvalid, "the engine needs a model");
  if (options.runtime.host == nullptr) options.runtime.host = &HostFunctions();
  for (LoadedModel& loaded : options.models) loaded.vocabulary.emplace(loaded.model);
  PIE_RETURN_IF_ERROR(FindDraftModels(options.models));
  auto engine = std::unique_ptr<Engine>(new Engine(std::move(options)));
  if (engine->options_.allow_fs || !engine->options_.data_root.empty()) {
    const Limits& limits = engine->options_.limits;
    engine->folders_ =
        std::make_unique<FolderWatch>(limits.max_scratch_entries, limits.user_share_percent);
  }
  if (engine->options_.allow_fs) {
    engine->scratch_ = PIE_TRY(ScratchRoot::Make(engine->options_.scratch_root, engine->id_));
  }
  if (!engine->options_.mcp.empty()) {
    engine->mcp_ = PIE_TRY(McpPool::Start(engine->options_.mcp, engine->options_.limits));
  }
  engine->runtime_ = PIE_TRY(wasm::Runtime::Start(engine->options_.runtime));
  for (LoadedModel& loaded : engine->options_.models) {
    loaded.scheduler->SetMeanwhile(std::make_shared<GuestsMeanwhile>(engine->runtime_->turns()));
  }
  return engine;
}

Status Engine::FindDraftModels(std::vector<LoadedModel>& models) {
  for (LoadedModel& loaded : models) {
    if (loaded.draft.empty()) continue;
    const std::string& name = loaded.model.name;
    const auto draft = std::ranges::find(
        models, loaded.draft,
        [](const LoadedModel& other) -> const std::string& { return other.model.name; });
    if (draft == models.end() || &*draft == &loaded) {
      return Fail(Code::kInvalid,
                  "model '{}' has draft = '{}', which names no other model of the configuration",
                  name, loaded.draft);
    }
    if (!draft->draft.empty()) {
      return Fail(Code::kInvalid,
                  "model '{}' drafts for '{}', so it cannot have a draft model of its own",
                  loaded.draft, name);
    }
    if (!HaveSameVocabulary(*loaded.model.tokenizer, *draft->model.tokenizer)) {
      return Fail(Code::kInvalid,
                  "model '{}' cannot draft for '{}': their vocabularies differ, so their tokens "
                  "mean different texts; choose a smaller model of the same family",
                  loaded.draft, name);
    }
    loaded.draft_scheduler = draft->scheduler.get();
  }
  return {};
}

Engine::~Engine() {
  if (runtime_) StopCompiling();
  launch_work_.Stop();  // nothing is launched from here on
  file_work_.Stop();
  grammar_work_.Stop();
  rules_work_.Stop();  // its jobs report to the schedulers
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
  scratch_.reset();
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

Result<Charge> Engine::ChargeInput(std::string_view username, size_t bytes) {
  if (bytes > limits().max_input_bytes) {
    return Fail(Code::kExhausted, "the input has {} bytes; at most {} MiB are allowed", bytes,
                limits().max_input_bytes >> 20);
  }
  const auto user = users_.Of(username);
  Charge charge = ChargeTo(user, &User::inputs);
  if (!charge.Grow(bytes)) {
    return Fail(Code::kExhausted,
                "the inputs of your running inferlets have {} MiB, and those of all users {} of "
                "{} MiB; try again later",
                user->inputs.used() >> 20, users_.totals().inputs->used() >> 20,
                limits().max_inputs_bytes >> 20);
  }
  return charge;
}

// Calls the program's `run`. `Text` is a view of the caller's text, or a string that is kept here.
template <class Text>
Engine::Begin Engine::Run(Text input) {
  return [input = std::move(input)](
             wasm::Program& code, Process* process,
             const Folders& folders) -> Result<std::unique_ptr<wasm::Instance>> {
    if (!code.runs()) {
      return Fail(Code::kInvalid,
                  "{} is an HTTP inferlet: it has no `run` function to call. Reach it under "
                  "/apps/ of a server, or start it with launch_daemon",
                  process->options().program);
    }
    return code.Launch(process, input, folders.first, folders.second, process->user()->number);
  };
}

Result<std::shared_ptr<Process>> Engine::Launch(std::string_view program, std::string_view input,
                                                Process::Options options) {
  Charge charge = PIE_TRY(ChargeInput(options.username, input.size()));
  return Start(program, std::move(charge), std::move(options), Run(input),
               [input] { return Run(std::string(input)); });
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
  Charge charge =
      PIE_TRY(ChargeInput(options.username, request.headers.size() + request.input.size()));
  auto begin = [&](wasm::Program& code, Process* process,
                   const Folders& folders) -> Result<std::unique_ptr<wasm::Instance>> {
    return code.Serve(process, request, folders.first, folders.second, process->user()->number);
  };
  // If no place is free, the request fails, and its sender tries again.
  auto process = PIE_TRY(Start(program, std::move(charge), std::move(options), begin, nullptr));
  process->CloseInbox();  // it has no session
  return process;
}

Result<std::shared_ptr<Engine::Launching>> Engine::LaunchLater(std::string program,
                                                               std::string input,
                                                               Process::Options options) {
  Charge charge = PIE_TRY(ChargeInput(options.username, input.size()));
  const std::string user = options.username;
  // Returns null if the program has to be compiled first. A thread of `compile_work_` then calls it
  // again.
  auto launch = [this, program = std::move(program), input = std::move(input),
                 charge = std::move(charge), options = std::move(options)](
                    Compiling compiling) mutable -> Result<std::shared_ptr<Process>> {
    if (resolver_) {
      auto id = PIE_TRY(resolver_(program, compiling));
      if (!id) return nullptr;
      program = *std::move(id);
    }
    auto process =
        PIE_TRY(Start(program, std::move(charge), std::move(options), Run(std::string_view(input)),
                      [&input] { return Run(std::move(input)); }));
    process->CloseInbox();  // no client will write to it
    return process;
  };
  return RunLater<std::shared_ptr<Process>>(launch_work_, compile_work_, user, "launches",
                                            std::move(launch));
}

Result<std::shared_ptr<Process>> Engine::Start(std::string_view program, Charge charge,
                                               Process::Options options, const Begin& begin,
                                               const std::function<Begin()>& later) {
  if (options.depth > limits().max_launch_depth) {
    return Fail(Code::kExhausted, "inferlets launch one another {} deep; {} is the limit",
                options.depth, limits().max_launch_depth);
  }
  if (options.depth == 0 && !options.token_budget && options_.default_token_limit > 0) {
    options.token_budget = std::make_shared<ByteBudget>(options_.default_token_limit);
  }
  auto code = PIE_TRY(Find(program, &options.program));
  const InstanceId id{next_instance_++};
  auto process = std::make_shared<Process>(this, id, std::move(options));
  process->input_ = std::move(charge);
  process->place_in_table_ = ChargeTo(process->user_, &User::processes);
  if (!process->place_in_table_.Grow(1)) {
    return Fail(Code::kExhausted,
                "{} of your inferlets run or wait already, and {} of {} of all users; try again "
                "later",
                process->user_->processes.used(), users_.totals().processes->used(),
                limits().max_processes);
  }
  if (code->uses_files()) NameFolders(process);
  {
    std::lock_guard lock(mutex_);
    running_[id.value] = process.get();
  }
  process->self_ = process;  // the process keeps itself alive until its exit
  Status begun = Adopt(process);
  // The process may end before this function returns.
  const std::string& user = process->user_->name;
  if (begun && places_.TryEnter(user)) {
    process->has_place_ = true;
    begun = BeginNow(*code, process, begin);
  } else if (begun && later) {
    places_.Enter(id.value, user, [this, code, process, begin = later()] {
      process->has_place_ = true;
      const Status late = BeginNow(*code, process, begin);
      if (!late) process->OnExit({wasm::Exit::Kind::kTrapped, late.error().text});
    });
    // The process may have been cancelled before it was in the queue.
    if (process->cancelled()) process->Cancel();
  } else if (begun) {
    begun =
        Fail(Code::kExhausted, "{} inferlets run, and no place is free for you; try again later",
             places_.taken());
  }
  if (begun) return process;
  Withdraw(process);
  return std::unexpected(begun.error());
}

// Tells the parent that it has a new child. The end of the parent ends the child.
Status Engine::Adopt(const std::shared_ptr<Process>& process) {
  if (process->options_.depth == 0) return {};
  const auto parent = process->options_.parent.lock();
  if (!parent) return Fail(Code::kCancelled, "the inferlet that launches this one has ended");
  return parent->Adopt(process);
}

// Undoes the preparations for a process that could not begin.
void Engine::Withdraw(const std::shared_ptr<Process>& process) {
  process->LeaveParent();
  process->place_in_table_.Release();
  process->input_.Release();
  Forget(*process);
  process->self_.reset();
}

// Only chooses the paths of the folders. The bridge makes the folders, because that may take long
// on a busy disk.
void Engine::NameFolders(const std::shared_ptr<Process>& process) {
  const std::string user = FolderName(process->options_.username);
  if (options_.allow_fs) {
    process->scratch_dir_ = fmt::format("{}/{}/{}", scratch_->dir(), user, process->id_.value);
    folders_->Watch(process, process->scratch_dir_, "/scratch", limits().max_scratch_bytes);
  }
  if (!options_.data_root.empty()) {
    process->data_dir_ = fmt::format("{}/{}", options_.data_root, user);
    folders_->Watch(process, process->data_dir_, "/data", limits().max_data_bytes);
  }
}

Status Engine::BeginNow(wasm::Program& code, const std::shared_ptr<Process>& process,
                        const Begin& begin) const {
  const uint64_t scratch_total = limits().max_scratch_total_bytes;
  const uint64_t scratch_share = scratch_total / 100 * limits().user_share_percent;
  const wasm::Folder scratch{.dir = process->scratch_dir_,
                             .max_bytes = limits().max_scratch_bytes,
                             .max_bytes_above = {scratch_share, scratch_total}};
  const wasm::Folder data{.dir = process->data_dir_, .max_bytes = limits().max_data_bytes};
  auto instance = PIE_TRY(begin(code, process.get(), {scratch, data}));
  std::lock_guard lock(process->mutex_);
  if (process->cancelled_) instance->Cancel();
  process->instance_ = std::move(instance);
  return {};
}

void Engine::Forget(const Process& process) {
  {
    std::lock_guard lock(mutex_);
    running_.erase(process.id_.value);
  }
  if (process.has_place_) places_.Leave(process.user_->name);
}

std::vector<ProcessInfo> Engine::ProcessesOf(std::string_view user) {
  std::vector<ProcessInfo> found;
  std::vector<std::shared_ptr<Process>> parents;  // destroyed after unlocking
  {
    std::lock_guard lock(mutex_);
    for (const auto& [number, process] : running_) {
      if (process->options_.username != user) continue;
      const auto& parent = parents.emplace_back(process->options_.parent.lock());
      found.push_back({.number = number,
                       .id = process->id_text_,
                       .program = process->options_.program,
                       .parent = parent ? parent->id_text_ : "",
                       .waits = !process->has_place_,
                       .launched_ns = process->launched_ns_,
                       .tokens = process->pace_->tokens()});
    }
  }
  std::ranges::sort(found, std::greater<>(), &ProcessInfo::number);
  return found;
}

bool Engine::Runs(uint64_t number) {
  std::lock_guard lock(mutex_);
  return running_.contains(number);
}

std::vector<std::shared_ptr<Process>> Engine::DetachedOf(std::string_view user) {
  std::vector<std::shared_ptr<Process>> detached;
  std::lock_guard lock(mutex_);
  for (const auto& [id, process] : running_) {
    if (process->detached() && process->options().username == user) {
      detached.push_back(process->shared_from_this());
    }
  }
  return detached;
}

std::shared_ptr<Process> Engine::FindDetached(std::string_view user, std::string_view process_id) {
  const size_t dash = process_id.rfind('-');
  if (dash == std::string_view::npos) return nullptr;
  const std::string_view digits = process_id.substr(dash + 1);
  uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  std::lock_guard lock(mutex_);
  const auto found = running_.find(number);
  if (found == running_.end()) return nullptr;
  Process* const process = found->second;
  const bool is_it =
      process->id() == process_id && process->detached() && process->options().username == user;
  return is_it ? process->shared_from_this() : nullptr;
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
  while (runtime_->live_instances() > 0 ||
         places_.waiting() > 0) {  // a process gives its place back a moment after its end
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  for (auto& loaded : options_.models) {
    if (!loaded.scheduler->WaitIdle(timeout_ms)) return false;
  }
  return true;
}

}  // namespace pie::host
