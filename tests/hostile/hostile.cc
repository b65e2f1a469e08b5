// Guests that misbehave: each ends with a clear error, a well-behaved neighbour is not disturbed,
// and nothing is left behind. tests/hostile/test_hostile.py runs it with the paths of the guest and
// of the corpus.
#include "hostile.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <new>
#include <thread>

namespace pie::host {
namespace {

using Kind = wasm::Exit::Kind;

class Hostile : public testing::Test {
 protected:
  static constexpr uint64_t kCpuBudgetMs = 500;

  static void SetUpTestSuite() {
    EngineOptions options;
    options.models.push_back(
        {MakeDummyModel("default"),
         std::make_unique<Scheduler>(MakeDummyBackend({.total_pages = 512}), SchedulerOptions{})});
    options.runtime.cache_dir = Env("PIE_HOSTILE_CACHE");
    options.runtime.compiler = Env("PIE_HOSTILE_COMPILER");
    options.runtime.max_instances = 64;  // sanitizers leave little address space for instances
    options.runtime.limits = {.max_memory_bytes = 64 << 20,
                              .max_handles = 2'000,
                              .cpu_budget_ms = kCpuBudgetMs,
                              .max_output_bytes = 4 << 20};
    options.limits.max_handles = 2'000;
    options.limits.max_queued_messages = 1'000;
    options.limits.max_messaging_bytes = 32 << 20;
    options.limits.max_inferlet_bytes = 16 << 20;
    auto engine = Engine::Start(std::move(options));
    ASSERT_TRUE(engine) << engine.error().text;
    engine_ = engine->release();
    const Status added = AddHostile(*engine_);
    ASSERT_TRUE(added) << added.error().text;
  }
  static void TearDownTestSuite() {
    delete engine_;
    engine_ = nullptr;
  }

  static std::shared_ptr<Process> Launch(std::string_view mode) {
    auto process = engine_->Launch("hostile", fmt::format(R"({{"mode": "{}"}})", mode), {});
    EXPECT_TRUE(process) << process.error().text;
    return *process;
  }

  // Runs a mode beside a neighbour that must not be disturbed.
  static wasm::Exit RunBeside(std::string_view mode) {
    auto neighbour = Launch("steady");
    wasm::Exit exit = Launch(mode)->Wait();
    wasm::Exit steady = neighbour->Wait();
    EXPECT_EQ(steady.kind, Kind::kReturned) << steady.text;
    EXPECT_EQ(steady.text, "200 tokens");
    return exit;
  }

  void TearDown() override {
    ASSERT_TRUE(engine_->WaitIdle(5000));
    EngineStats stats = engine_->stats();
    EXPECT_EQ(stats.instances, 0u);
    EXPECT_EQ(stats.handles, 0);
    EXPECT_EQ(stats.sequences, 0u);
    EXPECT_EQ(stats.pages, 0u);
  }

  static Engine* engine_;
};
Engine* Hostile::engine_ = nullptr;

void ExpectEnds(const wasm::Exit& exit, Kind kind, std::string_view words) {
  EXPECT_EQ(exit.kind, kind) << exit.text;
  EXPECT_NE(exit.text.find(words), std::string::npos) << exit.text;
}

TEST_F(Hostile, LoopIsStoppedAtItsCpuBudget) {
  ExpectEnds(RunBeside("loop"), Kind::kTrapped, "CPU budget");
}
TEST_F(Hostile, ManyLoopsShareTheMachineWithOthers) {
  std::vector<std::shared_ptr<Process>> loops;
  for (int i = 0; i < 8; ++i) loops.push_back(Launch("loop"));
  wasm::Exit steady = Launch("steady")->Wait();
  EXPECT_EQ(steady.kind, Kind::kReturned) << steady.text;
  for (auto& loop : loops) loop->Cancel();
  for (auto& loop : loops) EXPECT_NE(loop->Wait().kind, Kind::kReturned);
}
TEST_F(Hostile, RecursionEndsAtTheStack) {
  ExpectEnds(RunBeside("recurse"), Kind::kTrapped, "call stack exhausted");
}
TEST_F(Hostile, RecursionWithLocalsEndsAtTheGuestsOwnStack) {
  ExpectEnds(RunBeside("recurse_with_locals"), Kind::kTrapped, "wasm trap");
}
TEST_F(Hostile, MemoryEndsAtItsLimit) {
  ExpectEnds(RunBeside("grow"), Kind::kTrapped, "memory limit");
}
TEST_F(Hostile, ContextsEndAtTheHandleLimit) {
  ExpectEnds(RunBeside("contexts"), Kind::kFailed, "handle limit");
}
TEST_F(Hostile, PassesEndAtTheHandleLimit) {
  ExpectEnds(RunBeside("passes"), Kind::kTrapped, "handle limit");
}
TEST_F(Hostile, PollablesEndAtTheHandleLimit) {
  ExpectEnds(RunBeside("pollables"), Kind::kTrapped, "handle limit");
}
TEST_F(Hostile, SubscriptionsEndAtTheHandleLimit) {
  ExpectEnds(RunBeside("subscriptions"), Kind::kTrapped, "handle limit");
}
TEST_F(Hostile, QueuesHaveAnEnd) {
  ExpectEnds(RunBeside("queue"), Kind::kTrapped, "queue is full");
}
TEST_F(Hostile, MemoryOfPassesHasAnEnd) {
  ExpectEnds(RunBeside("hoard_passes"), Kind::kFailed, "memory limit");
}
TEST_F(Hostile, MemoryOfAllQueuesHasAnEnd) {
  ExpectEnds(RunBeside("hoard_messages"), Kind::kTrapped, "wait to be read in all topics");
  ExpectEnds(RunBeside("hoard_letters"), Kind::kTrapped, "wait to be read in all topics");
  ExpectEnds(RunBeside("hoard_broadcasts"), Kind::kTrapped, "wait to be read in all topics");
}
TEST_F(Hostile, LaunchesHaveAnEnd) {
  ExpectEnds(RunBeside("launch_many"), Kind::kFailed, "handle limit");
}
TEST_F(Hostile, PassesEndThoughTheirContextIsGone) {
  ExpectEnds(RunBeside("wait_after_destroy"), Kind::kReturned, "waited");
}
TEST_F(Hostile, OutputHasAnEnd) {
  ExpectEnds(RunBeside("flood"), Kind::kTrapped, "output limit");
}
TEST_F(Hostile, PanicGivesTheGuestsOwnMessageAndABacktrace) {
  wasm::Exit exit = RunBeside("panic");
  EXPECT_TRUE(exit.text.starts_with("the guest's own message\n    at ")) << exit.text;
  ExpectEnds(exit, Kind::kTrapped, "lib.rs:");
  ExpectEnds(exit, Kind::kTrapped, "wasm backtrace");
}
TEST_F(Hostile, ErrorIsPassedOn) {
  ExpectEnds(RunBeside("fail"), Kind::kFailed, "the guest's own error");
}
TEST_F(Hostile, ExitInTheMiddleOfAPass) {
  ExpectEnds(RunBeside("exit"), Kind::kTrapped, "exit(1)");
}
TEST_F(Hostile, ReturnWithPassesUnderWay) {
  ExpectEnds(RunBeside("abandon"), Kind::kReturned, "left everything behind");
}
TEST_F(Hostile, PanicWithHandsFull) {
  ExpectEnds(RunBeside("panic_holding"), Kind::kTrapped, "with hands full");
}
TEST_F(Hostile, EmptyPollTraps) {
  EXPECT_EQ(RunBeside("poll_nothing").kind, Kind::kTrapped);
}
TEST_F(Hostile, DestroyedContextIsNamed) {
  ExpectEnds(RunBeside("use_destroyed"), Kind::kFailed, "destroyed");
}
TEST_F(Hostile, LaunchesEndAtTheirDepth) {
  ExpectEnds(RunBeside("launch_self"), Kind::kFailed, "deep");
}
TEST_F(Hostile, NothingOfTheHostIsSeen) {
  ExpectEnds(RunBeside("read_secrets"), Kind::kReturned, "env 0 files 0 net false");
}
TEST_F(Hostile, BadCallsAreRefusedOneByOne) {
  wasm::Exit exit = RunBeside("bad_calls");
  EXPECT_EQ(exit.kind, Kind::kReturned) << exit.text;
  EXPECT_EQ(exit.text.find("ACCEPTED"), std::string::npos) << exit.text;
  EXPECT_NE(exit.text.find("empty input"), std::string::npos) << exit.text;
}

TEST_F(Hostile, CancelStopsAGuestThatSleeps) {
  auto process = Launch("sleep");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  process->Cancel();
  EXPECT_EQ(process->Wait().kind, Kind::kCancelled);
}
TEST_F(Hostile, CancelStopsAGuestThatComputes) {
  auto process = Launch("loop");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  process->Cancel();
  EXPECT_EQ(process->Wait().kind, Kind::kCancelled);
}
TEST_F(Hostile, CancelAtAnyMoment) {
  // A cancellation before the start, during the start, or during a pass ends the guest once and
  // cleanly.
  for (int i = 0; i < 60; ++i) {
    auto process = Launch("wait_for_pass_forever");
    std::this_thread::sleep_for(std::chrono::microseconds(i * 50));
    process->Cancel();
    EXPECT_EQ(process->Wait().kind, Kind::kCancelled);
  }
}
TEST_F(Hostile, InputOverTheLimit) {
  std::string input = "\"" + std::string(engine_->limits().max_input_bytes, 'x') + "\"";
  auto process = engine_->Launch("hostile", input, {});
  ASSERT_FALSE(process);
  EXPECT_NE(process.error().text.find("at most 16 MiB"), std::string::npos) << process.error().text;
}
TEST_F(Hostile, InvalidInputIsTheGuestsError) {
  auto process = engine_->Launch("hostile", "{not json", {});
  ASSERT_TRUE(process);
  EXPECT_EQ((*process)->Wait().kind, Kind::kFailed);
}
TEST_F(Hostile, UnknownProgram) {
  auto process = engine_->Launch("nobody", "{}", {});
  ASSERT_FALSE(process);
  EXPECT_NE(process.error().text.find("no program is named"), std::string::npos);
}

TEST_F(Hostile, FilesThatAreNoInferlets) {
  const std::pair<const char*, const char*> cases[] = {
      {"empty.wasm", "empty"},
      {"text.wasm", "not a WebAssembly component"},
      {"core_module.wasm", "core WebAssembly module"},
      {"truncated.wasm", "not a valid component"},
      {"no_run.wasm", "no entry point"},
      {"run_without_function.wasm", "no function `run`"},
      {"wrong_import.wasm", "pie:core/nonsense"},
      {"wrong_type.wasm", "result<string, string>"},
  };
  for (auto [file, words] : cases) {
    Manifest manifest;
    manifest.name = "broken";
    manifest.version = "0.1.0";
    std::string bytes = ReadFile(std::filesystem::path(Env("PIE_HOSTILE_CORPUS")) / file);
    Status added = engine_->AddProgram(manifest, bytes, {});
    ASSERT_FALSE(added) << file;
    EXPECT_NE(added.error().text.find(words), std::string::npos)
        << file << ": " << added.error().text;
  }
}

TEST_F(Hostile, DamagedCodeCacheIsRebuilt) {
  // Damages every cache entry. The program is loaded again and must run as before.
  size_t damaged = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(Env("PIE_HOSTILE_CACHE"))) {
    if (entry.path().extension() != ".cwasm") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.write("damaged!", 8);
    ++damaged;
  }
  ASSERT_GT(damaged, 0u);
  bool compiled = false;
  Manifest manifest;
  manifest.name = "again";
  manifest.version = "0.1.0";
  Status added =
      engine_->AddProgram(manifest, ReadFile(Env("PIE_HOSTILE_GUEST")), [&] { compiled = true; });
  ASSERT_TRUE(added) << added.error().text;
  EXPECT_TRUE(compiled);
  auto process = engine_->Launch("again", R"({"mode": "steady"})", {});
  ASSERT_TRUE(process);
  EXPECT_EQ((*process)->Wait().kind, Kind::kReturned);
}

TEST_F(Hostile, ScratchIsItsOwnAndGoesWithIt) {
  const auto root = std::filesystem::path(Env("PIE_HOSTILE_CACHE")) / "scratch";
  EngineOptions options;
  options.allow_fs = true;
  options.scratch_root = root;
  auto engine = StartAnother(std::move(options));
  ASSERT_TRUE(engine) << engine.error().text;
  for (int i = 0; i < 3; ++i) {
    auto process = (*engine)->Launch("hostile", R"({"mode": "scratch"})", {});
    ASSERT_TRUE(process) << process.error().text;
    ExpectEnds((*process)->Wait(), Kind::kReturned, "kept escaped false");
  }
  // The engine has folders for its users there. No file of a process that has ended is left.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    EXPECT_TRUE(entry.is_directory()) << entry.path();
  }
  engine->reset();
  EXPECT_TRUE(std::filesystem::is_empty(root));
}

// A device that shows what its threads may do meanwhile.
class Lending : public Backend {
 public:
  explicit Lending(std::promise<std::shared_ptr<Meanwhile>>& meanwhile) : meanwhile_(meanwhile) {}
  const BackendInfo& info() const override { return device_->info(); }
  Result<Ticket> Submit(const Batch& batch) override { return device_->Submit(batch); }
  Result<BatchOutput> Wait(Ticket ticket) override { return device_->Wait(ticket); }
  Status ReadPage(PageId page, std::span<std::byte> content) override {
    return device_->ReadPage(page, content);
  }
  Status WritePage(PageId page, std::span<const std::byte> content) override {
    return device_->WritePage(page, content);
  }
  void SetMeanwhile(const std::shared_ptr<Meanwhile>& meanwhile) override {
    meanwhile_.set_value(meanwhile);
  }

 private:
  const std::unique_ptr<Backend> device_ = MakeDummyBackend({});
  std::promise<std::shared_ptr<Meanwhile>>& meanwhile_;
};

struct ExitThread : Listener {
  void OnMessage(std::string_view) override {}
  void OnFile(std::string_view) override {}
  void OnOutput(bool, std::string_view) override {}
  void OnExit(const wasm::Exit&) override { thread = std::this_thread::get_id(); }
  std::thread::id thread;
};

TEST_F(Hostile, ACancelledGuestIsNotFreedOnALentThread) {
  std::promise<std::shared_ptr<Meanwhile>> lent;
  EngineOptions options;
  options.models.push_back(
      {MakeDummyModel("lending"),
       std::make_unique<Scheduler>(std::make_unique<Lending>(lent), SchedulerOptions{})});
  auto engine = StartAnother(std::move(options));
  ASSERT_TRUE(engine) << engine.error().text;
  const auto meanwhile = lent.get_future().get();
  const auto ended = std::make_shared<ExitThread>();
  auto process = (*engine)->Launch("hostile", R"({"mode": "sleep"})", {.listener = ended});
  ASSERT_TRUE(process) << process.error().text;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until it sleeps
  meanwhile->Begin();
  (*process)->Cancel();
  meanwhile->RunOne();
  meanwhile->End();
  EXPECT_EQ((*process)->Wait().kind, Kind::kCancelled);
  EXPECT_NE(ended->thread, std::this_thread::get_id());
}

// Memory may be short when an event is passed on.
struct Throwing : Listener {
  void OnMessage(std::string_view) override { throw std::bad_alloc(); }
  void OnFile(std::string_view) override { throw std::bad_alloc(); }
  void OnOutput(bool, std::string_view) override { throw std::bad_alloc(); }
  void OnExit(const wasm::Exit&) override { throw std::bad_alloc(); }
};

TEST_F(Hostile, AnExceptionOfAListenerEndsNeitherTheEngineNorTheWait) {
  auto process = engine_->Launch("hostile", R"({"mode": "flood"})",
                                 {.listener = std::make_shared<Throwing>()});
  ASSERT_TRUE(process) << process.error().text;
  ExpectEnds((*process)->Wait(), Kind::kTrapped, "output limit");
}

TEST_F(Hostile, EngineEndsWhileGuestsRun) {
  auto engine = StartAnother({});
  ASSERT_TRUE(engine) << engine.error().text;
  std::vector<std::shared_ptr<Process>> processes;
  for (const char* mode : {"loop", "sleep", "wait_for_pass_forever"}) {
    processes.push_back(
        *(*engine)->Launch("hostile", fmt::format(R"({{"mode": "{}"}})", mode), {}));
  }
  engine->reset();
  for (auto& process : processes) EXPECT_EQ(process->Wait().kind, Kind::kCancelled);
}

}  // namespace
}  // namespace pie::host
