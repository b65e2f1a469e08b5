// Engine: models with their schedulers, programs, and the processes that run them. The root that
// owns everything; any thread may use it. Destroying it cancels what runs and waits for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/work_queue.h"
#include "host/adapters.h"
#include "host/folder_watch.h"
#include "host/hub.h"
#include "host/limits.h"
#include "host/manifest.h"
#include "host/pending.h"
#include "host/places.h"
#include "host/process.h"
#include "host/snapshots.h"
#include "host/users.h"
#include "sched/scheduler.h"
#include "sched/suffix_drafter.h"
#include "speech/grammar.h"
#include "speech/model.h"
#include "wasm/runtime.h"

namespace pie::host {

// A model and the device it runs on.
struct LoadedModel {
  Model model;
  std::unique_ptr<Scheduler> scheduler;
  std::optional<GrammarVocabulary> vocabulary = {};  // filled in by the engine
};

struct EngineOptions {
  std::vector<LoadedModel> models;  // the first is the default
  wasm::RuntimeOptions runtime;     // its host table is filled in by the engine
  Limits limits;
  uint64_t seed = 0;
  bool allow_fs = false;             // give each process a /scratch
  std::string scratch_root;          // below which scratch folders are made
  uint64_t default_token_limit = 0;  // of a process that is launched without one; 0 = none
  bool shared_topics = false;        // topics that begin with "shared/" are everybody's
  std::string adapter_root;          // where adapters are; empty = in memory, for this run only
  std::string snapshot_root;     // where contexts are saved; empty = in memory, for this run only
  bool shared_prefixes = false;  // equal beginnings are shared by all users, not by each alone
  std::string data_root;  // below which users have a /data that stays; empty = they have none
};

// A moment's counts; all zero but for snapshots when nothing runs.
struct EngineStats {
  size_t instances = 0;
  int64_t handles = 0;
  uint64_t sequences = 0;  // contexts and snapshots
  uint64_t pages = 0;
  size_t snapshots = 0;
  size_t topics = 0;
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> Start(EngineOptions options);
  ~Engine();

  // Compiles and keeps a program under its manifest's id. Blocks; `on_compile` is called if it has
  // to compile.
  Status AddProgram(const Manifest& manifest, std::string_view component,
                    const std::function<void()>& on_compile);
  // Forgets a program. Instances of it go on.
  void RemoveProgram(std::string_view id);
  // `program` is `name` or `name@version`; without a version, the latest added. Makes folders where
  // processes have any.
  Result<std::shared_ptr<Process>> Launch(std::string_view program, std::string_view input,
                                          Process::Options options);
  // A place for an input of a launch to be.
  Result<Charge> ChargeInput(std::string_view user, size_t bytes);
  // The same on behalf of a guest, which waits for the result. The work is done by threads of the
  // engine: the resolver may read files and compile.
  using Launching = Pending<std::shared_ptr<Process>>;
  Result<std::shared_ptr<Launching>> LaunchLater(std::string program, std::string input,
                                                 Process::Options options);
  // Fails if the program answers no HTTP requests.
  Status CheckServes(std::string_view program);
  // Lets a program answer an HTTP request: in an instance of its own, which ends with the response.
  // The body follows by Process::PassBody, the response goes to the listener.
  Result<std::shared_ptr<Process>> Serve(std::string_view program, const wasm::HttpRequest& request,
                                         Process::Options options);
  // Makes sure that the engine has a program that a guest launches, and returns the program's id.
  // Set before anything runs.
  using Resolver = std::function<Result<std::string>(std::string_view program)>;
  void SetResolver(Resolver resolver) { resolver_ = std::move(resolver); }
  // Is better code of it still being made?
  bool Optimising(std::string_view program);

  // For host calls.
  const std::string& id() const { return id_; }
  uint64_t seed() const { return options_.seed; }
  const Limits& limits() const { return options_.limits; }
  // The owner of a topic: the user, or all users.
  std::string_view TopicOwner(std::string_view user, std::string_view topic) const {
    return options_.shared_topics && topic.starts_with("shared/") ? "" : user;
  }
  // The group of contexts that share KV pages with those of a user.
  CacheSalt SaltOf(std::string_view user) const;
  Users& users() { return users_; }
  std::atomic<int64_t>* live_handles() { return &live_handles_; }
  std::vector<LoadedModel>& models() { return options_.models; }
  const std::shared_ptr<PaceMetrics>& pace() const { return pace_; }
  Hub& hub() { return hub_; }
  Snapshots& snapshots() { return *snapshots_; }
  Adapters& adapters() { return *adapters_; }
  // Its threads read and delete files for guests.
  WorkQueue& file_work() { return file_work_; }
  // Its threads check and compile grammars.
  WorkQueue& grammar_work() { return grammar_work_; }
  // Its thread makes masks while a device runs.
  WorkQueue& mask_work() { return mask_work_; }
  // What the user's chains on a model gave lately, for drafts.
  std::shared_ptr<RecentTokens> RecentOf(std::string_view user, uint32_t model);
  // Takes a process that waits for a place out of the queue. False if it does not wait.
  bool Abandon(const Process& process) { return places_.Abandon(process.id_.value); }
  void Forget(const Process& process);

  EngineStats stats();
  // Waits until no process runs and the schedulers are idle. Returns false after `timeout_ms`.
  bool WaitIdle(int timeout_ms);

 private:
  explicit Engine(EngineOptions options);
  using Folders = std::pair<wasm::Folder, wasm::Folder>;  // /scratch, /data
  using Begin = std::function<Result<std::unique_ptr<wasm::Instance>>(
      wasm::Program& program, Process* process, const Folders& folders)>;
  // `begin` is called at once if there is a place for the user. If there is none, what `later`
  // makes is called when there is one; without `later`, the launch fails.
  Result<std::shared_ptr<Process>> Start(std::string_view program, Charge charge,
                                         Process::Options options, const Begin& begin,
                                         const std::function<Begin()>& later);
  Status MakeFolders(const std::shared_ptr<Process>& process);
  Status Adopt(const std::shared_ptr<Process>& process);
  Status BeginNow(wasm::Program& code, const std::shared_ptr<Process>& process,
                  const Begin& begin) const;
  void Withdraw(const std::shared_ptr<Process>& process);
  template <class Text>
  static Begin Run(Text input);
  Result<std::shared_ptr<wasm::Program>> Find(std::string_view program, std::string* id);
  Result<std::string> MakeScratch(InstanceId id) const;
  Result<std::string> MakeData(std::string_view user) const;

  EngineOptions options_;
  Resolver resolver_;
  std::string id_;  // unlike that of other engines
  std::atomic<int64_t> live_handles_ = 0;
  std::atomic<uint64_t> next_instance_ = 1;
  Users users_;
  Places places_;
  Hub hub_;
  std::unique_ptr<Snapshots> snapshots_;
  std::unique_ptr<Adapters> adapters_;
  const std::shared_ptr<PaceMetrics> pace_ = std::make_shared<PaceMetrics>();

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<wasm::Program>, std::less<>> programs_;  // by name@version
  std::map<std::string, std::string, std::less<>> latest_;  // name → name@version
  std::unordered_map<uint64_t, Process*> running_;
  std::unique_ptr<FolderWatch> folders_;  // where processes have any
  std::unique_ptr<wasm::Runtime> runtime_;
  std::map<std::pair<std::string, uint32_t>, std::shared_ptr<RecentTokens>> recent_;
  WorkQueue file_work_, launch_work_, grammar_work_, mask_work_;  // last: their jobs use the rest
};

}  // namespace pie::host
