// Engine: models with their schedulers, programs, and the processes that run them. It is the root
// that owns everything. Any thread may use it. Destroying it cancels the running processes and
// waits until they have ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
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
#include "host/mcp_pool.h"
#include "host/pending.h"
#include "host/places.h"
#include "host/process.h"
#include "host/scratch_root.h"
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
  std::shared_ptr<Scheduler> scheduler;
  std::string draft = {};  // the name of the model that drafts for this one; empty: there is none
  // Filled in by the engine.
  std::optional<GrammarVocabulary> vocabulary = {};
  Scheduler* draft_scheduler = nullptr;
};

struct EngineOptions {
  std::vector<LoadedModel> models;  // the first is the default
  wasm::RuntimeOptions runtime;     // if it has no host table, the engine sets its own
  Limits limits;
  uint64_t seed = 0;
  bool allow_fs = false;             // give each process a /scratch
  std::string scratch_root;          // scratch folders are made below this folder
  uint64_t default_token_limit = 0;  // of a process that is launched without one; 0 = none
  bool shared_topics = false;        // topics that begin with "shared/" belong to all users
  std::string adapter_root;          // the folder of adapters; empty = in memory, for this run only
  std::string snapshot_root;     // the folder of snapshots; empty = in memory, for this run only
  bool shared_prefixes = false;  // all users share equal prefixes; false: each user's own contexts
  // Whether there are several users. If not, shares do not apply until a second user is seen.
  bool several_users = true;
  std::string data_root;  // users' permanent /data folders are below it; empty = users have none
  std::vector<McpServerConfig> mcp;  // servers of the configuration
  // Whether a thread makes masks while the device runs. If not, the device makes them.
  bool mask_thread = MatcherRules::ThreadPays();
};

// Counts at one moment. While nothing runs, all of them but `snapshots` are zero.
struct EngineStats {
  size_t instances = 0;
  int64_t handles = 0;
  uint64_t sequences = 0;  // contexts and snapshots
  uint64_t pages = 0;
  size_t snapshots = 0;
  size_t topics = 0;
};

// A process that has not ended, as its user sees it.
struct ProcessInfo {
  uint64_t number = 0;  // in the order of launches; AccountView::owner
  std::string id;
  std::string program;
  std::string parent;  // the id of the process that launched it; empty: a client launched it
  bool waits = false;  // the process waits for a place
  int64_t launched_ns = 0;
  uint64_t tokens = 0;
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> Start(EngineOptions options);
  ~Engine();

  // Compiles a program and keeps it under its manifest's id. Blocks. Calls `on_compile` if the
  // program has to be compiled.
  Status AddProgram(const Manifest& manifest, std::string_view component,
                    const std::function<void()>& on_compile);
  // AddProgram in two steps. Compile returns null if the code is not in the cache and `compiling`
  // is kRefused. If a better compiler can improve the code, it does so later, charged to `user`.
  Result<std::shared_ptr<wasm::Program>> Compile(std::string_view component, std::string_view user,
                                                 Compiling compiling,
                                                 const std::function<void()>& on_compile = {});
  void KeepProgram(const Manifest& manifest, std::shared_ptr<wasm::Program> program);
  // Each thread of this queue waits for one compiler. Users take turns.
  WorkQueue& compile_work() { return compile_work_; }
  // Kills the compilers that run, and lets no other begin. Programs that are compiled already can
  // still be launched. Returns when the jobs of `compile_work` have ended.
  void StopCompiling();
  // Forgets a program. Its running instances go on.
  void RemoveProgram(std::string_view id);
  // Launches `name` or `name@version`. Without a version, launches the one that was added last.
  Result<std::shared_ptr<Process>> Launch(std::string_view program, std::string_view input,
                                          Process::Options options);
  // Charges the input of a launch to the user.
  Result<Charge> ChargeInput(std::string_view user, size_t bytes);
  // Launches a program on behalf of a guest, which waits for the result. The resolver may read
  // files and compile, so threads of the engine do the work.
  using Launching = Pending<std::shared_ptr<Process>>;
  Result<std::shared_ptr<Launching>> LaunchLater(std::string program, std::string input,
                                                 Process::Options options);
  // Fails if the program answers no HTTP requests.
  Status CheckServes(std::string_view program);
  // Lets a program answer an HTTP request, in an instance that ends with the response. The body
  // follows by Process::PassBody. The response goes to the listener.
  Result<std::shared_ptr<Process>> Serve(std::string_view program, const wasm::HttpRequest& request,
                                         Process::Options options);
  // Makes sure that the engine has a program that a guest launches, and returns the program's id.
  // Returns nothing if the program has to be compiled and `compiling` is kRefused. Set it before
  // anything runs.
  using Resolver = std::function<Result<std::optional<std::string>>(std::string_view program,
                                                                    Compiling compiling)>;
  void SetResolver(Resolver resolver) { resolver_ = std::move(resolver); }
  // Whether better code of the program is being compiled, or waits to be compiled.
  bool Optimising(std::string_view program);

  // The members below are for host calls.
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
  // The MCP servers of the configuration; null: there are none.
  McpPool* mcp() { return mcp_.get(); }
  // The threads of this queue read, write and delete files for guests.
  WorkQueue& file_work() { return file_work_; }
  // The threads of this queue check and compile grammars.
  WorkQueue& grammar_work() { return grammar_work_; }
  // The thread of this queue makes masks while a device runs. Null: the device makes them.
  WorkQueue* mask_work() { return options_.mask_thread ? &mask_work_ : nullptr; }
  // The threads of this queue work for the grammars of users who have spent their LentTime.
  WorkQueue& rules_work() { return rules_work_; }
  // The recent tokens of the user's chains on a model, from which drafts are made.
  std::shared_ptr<RecentTokens> RecentOf(std::string_view user, uint32_t model);
  // The inferlets of a user that outlive those that launched them.
  std::vector<std::shared_ptr<Process>> DetachedOf(std::string_view user);
  // The one of those that has this id; null: there is none.
  std::shared_ptr<Process> FindDetached(std::string_view user, std::string_view process_id);
  // Takes a process that waits for a place out of the queue. Returns false if it does not wait.
  bool Abandon(const Process& process) { return places_.Abandon(process.id_.value); }
  void Forget(const Process& process);

  EngineStats stats();  // slow: goes through all topics
  size_t instances() const { return runtime_->live_instances(); }
  // The user's processes that have not ended, the newest first.
  std::vector<ProcessInfo> ProcessesOf(std::string_view user);
  // Whether the process of this number, of any user, has not ended.
  bool Runs(uint64_t number);
  // Waits until no process runs and the schedulers are idle. Returns false after `timeout_ms`.
  bool WaitIdle(int timeout_ms);

 private:
  explicit Engine(EngineOptions options);
  // Finds the models that draft for others, and checks that they can.
  static Status FindDraftModels(std::vector<LoadedModel>& models);
  using Folders = std::pair<wasm::Folder, wasm::Folder>;  // /scratch, /data
  using Begin = std::function<Result<std::unique_ptr<wasm::Instance>>(
      wasm::Program& program, Process* process, const Folders& folders)>;
  // Calls `begin` at once if there is a place for the user. If there is none, calls the function
  // that `later` returns when a place is free; without `later`, the launch fails.
  Result<std::shared_ptr<Process>> Start(std::string_view program, Charge charge,
                                         Process::Options options, const Begin& begin,
                                         const std::function<Begin()>& later);
  void NameFolders(const std::shared_ptr<Process>& process);
  Status Adopt(const std::shared_ptr<Process>& process);
  Status BeginNow(wasm::Program& code, const std::shared_ptr<Process>& process,
                  const Begin& begin) const;
  void Withdraw(const std::shared_ptr<Process>& process);
  template <class Text>
  static Begin Run(Text input);
  void OptimiseLater(const std::shared_ptr<wasm::Program>& program, std::string_view component,
                     std::string_view user);
  Result<std::shared_ptr<wasm::Program>> Find(std::string_view program, std::string* id);

  // The schedulers of models that may draft for others. Declared first, so that they outlive the
  // schedulers that use them.
  std::vector<std::shared_ptr<Scheduler>> schedulers_;
  EngineOptions options_;
  Resolver resolver_;
  std::string id_;  // differs from the ids of other engines
  std::atomic<int64_t> live_handles_ = 0;
  std::atomic<uint64_t> next_instance_ = 1;
  Users users_;
  Places places_;
  Hub hub_;
  std::unique_ptr<Adapters> adapters_;
  std::unique_ptr<Snapshots> snapshots_;  // uses adapters_
  std::shared_ptr<McpPool> mcp_;
  const std::shared_ptr<PaceMetrics> pace_ = std::make_shared<PaceMetrics>();

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<wasm::Program>, std::less<>> programs_;  // by name@version
  std::map<std::string, std::string, std::less<>> latest_;  // name → name@version
  std::unordered_map<uint64_t, Process*> running_;
  std::set<const wasm::Program*> optimising_;
  std::unique_ptr<ScratchRoot> scratch_;  // null: processes have no /scratch
  std::unique_ptr<FolderWatch> folders_;  // null: processes have no folders
  std::unique_ptr<wasm::Runtime> runtime_;
  std::map<std::pair<std::string, uint32_t>, std::shared_ptr<RecentTokens>> recent_;
  // Declared last: their jobs use the members above.
  WorkQueue file_work_, launch_work_, compile_work_, grammar_work_, mask_work_, rules_work_;
};

}  // namespace pie::host
