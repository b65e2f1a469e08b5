// pie-fuzz: spoilt model files for everything that reads one. Built with sanitizers.
//
//   pie-fuzz [--seconds 60] [--seed N] [--runs N] [TARGET…]    all targets when none is named
//   pie-fuzz --file PATH TARGET                                one file as it is
//
// Input number i of a run is a function of seed + i alone, so what fails is repeated with
// `--seed N --runs 1`. Failures are what a sanitizer finds, an exception that leaves the reader,
// memory beyond kMemoryFactor times the file (kMemoryFloor at least), and time.
#include <fmt/format.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "targets.h"

// Allocations that no file of ours can justify end the run at once.
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=256:allocator_may_return_null=0:handle_abort=1:"
         "detect_stack_use_after_return=0:malloc_context_size=8:quarantine_size_mb=16";
}

// g++ has these in its library and not in its headers.
extern "C" size_t __sanitizer_get_allocated_size(const volatile void* pointer);
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*,
                                                                             size_t),
                                                         void (*free_hook)(const volatile void*));

namespace pie::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMemoryFloor = size_t{16} << 20;
constexpr size_t kMemoryFactor = 64;
constexpr double kCpuSeconds = 5;  // of one input, in this slow build: real ones take microseconds

// --- memory: counted by the allocator's own hooks, so that no library escapes --------------------

std::atomic<size_t> live = 0;
std::atomic<size_t> peak = 0;

void OnMalloc(const volatile void*, size_t size) {
  const size_t now = live += size;
  size_t old = peak;
  while (now > old && !peak.compare_exchange_weak(old, now)) {
  }
}

void OnFree(const volatile void* pointer) {
  if (pointer != nullptr) live -= __sanitizer_get_allocated_size(pointer);
}

// --- what to say when it ends here ---------------------------------------------------------------

const char* current_target = "";
uint64_t current_seed = 0;

void SayHowToRepeat() {
  fmt::print(stderr, "pie-fuzz: FAILED; to repeat: pie-fuzz {} --seed {} --runs 1\n",
             current_target, current_seed);
}

void OnTimeout(int) {
  // No allocation here: the signal may have come inside the allocator.
  constexpr char kText[] = "pie-fuzz: an input takes too long\n";
  (void)!write(STDERR_FILENO, kText, sizeof(kText) - 1);
  std::abort();  // the sanitizer shows where it is, then SayHowToRepeat
}

void LimitCpu(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const itimerval timer = {.it_interval = {}, .it_value = {.tv_sec = whole, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

[[noreturn]] void Fail(const std::string& what) {
  fmt::print(stderr, "pie-fuzz: {}\n", what);
  SayHowToRepeat();
  std::_Exit(1);
}

// -------------------------------------------------------------------------------------------------

struct Tally {
  uint64_t inputs = 0;
  uint64_t taken = 0;  // for good
  size_t most_memory = 0;
  double slowest_ms = 0;
};

void RunInput(const Target& target, const std::string& bytes, Tally& tally) {
  const size_t before = live;
  peak = before;
  LimitCpu(kCpuSeconds);
  const std::clock_t start = std::clock();
  tally.taken += target.read(bytes) ? 1 : 0;
  const double ms = static_cast<double>(std::clock() - start) * 1e3 / CLOCKS_PER_SEC;
  LimitCpu(0);
  const size_t used = peak - before;
  const size_t allowed = std::max(kMemoryFloor, kMemoryFactor * bytes.size());
  if (used > allowed) {
    Fail(fmt::format("a file of {} bytes took {} MB of memory", bytes.size(), used >> 20));
  }
  tally.most_memory = std::max(tally.most_memory, used);
  tally.slowest_ms = std::max(tally.slowest_ms, ms);
  ++tally.inputs;
}

void RunTarget(const Target& target, uint64_t seed, uint64_t runs, double seconds) {
  Tally tally;
  current_target = target.name;
  const auto start = Clock::now();
  for (uint64_t i = 0; i < runs; ++i) {
    if (std::chrono::duration<double>(Clock::now() - start).count() > seconds) break;
    current_seed = seed + i;
    Dice dice(current_seed);
    RunInput(target, target.make(dice), tally);
  }
  fmt::print("{:12} {:8} files, {:7} taken for good; at most {:.1f} MB and {:.0f} ms each\n",
             target.name, tally.inputs, tally.taken, static_cast<double>(tally.most_memory) / 1e6,
             tally.slowest_ms);
}

int Main(int argc, char** argv) {
  uint64_t seed = std::random_device{}();
  uint64_t runs = UINT64_MAX;
  double seconds = 60;
  std::string file;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string next = i + 1 < argc ? argv[i + 1] : "";
    if (!word.starts_with("--")) {
      names.push_back(word);
      continue;
    }
    ++i;
    if (word == "--seed")
      seed = std::strtoull(next.c_str(), nullptr, 10);
    else if (word == "--runs")
      runs = std::strtoull(next.c_str(), nullptr, 10);
    else if (word == "--seconds")
      seconds = std::strtod(next.c_str(), nullptr);
    else if (word == "--file")
      file = next;
    else
      return fmt::print(stderr, "pie-fuzz: what is {}?\n", word), 2;
  }
  std::vector<Target> chosen;
  for (const Target& target : Targets()) {
    if (names.empty() || std::ranges::find(names, target.name) != names.end()) {
      chosen.push_back(target);
    }
  }
  if (chosen.empty()) return fmt::print(stderr, "pie-fuzz: no such target\n"), 2;

  setenv("RUST_BACKTRACE", "0", 1);  // reading symbols takes more memory than any file may
  __sanitizer_set_death_callback(SayHowToRepeat);
  __sanitizer_install_malloc_and_free_hooks(OnMalloc, OnFree);
  std::signal(SIGPROF, OnTimeout);
  if (!file.empty()) {
    std::ifstream in(file, std::ios::binary);
    Tally tally;
    current_target = chosen.front().name;
    RunInput(chosen.front(), std::string(std::istreambuf_iterator<char>(in), {}), tally);
    fmt::print("{}\n", tally.taken != 0 ? "taken for good" : "refused");
    return 0;
  }
  fmt::print("pie-fuzz: seed {}\n", seed);
  for (const Target& target : chosen) {
    RunTarget(target, seed, runs, seconds / static_cast<double>(chosen.size()));
  }
  return 0;
}

}  // namespace
}  // namespace pie::fuzz

int main(int argc, char** argv) {
  return pie::fuzz::Main(argc, argv);
}
