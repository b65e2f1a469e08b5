// pie-fuzz: gives damaged files to everything that reads a model. It is built with sanitizers.
//
//   pie-fuzz [--seconds 60] [--seed N] [--runs N] [TARGET…]    without a target, all of them
//   pie-fuzz --file PATH TARGET                                reads one file as it is
//
// Input number i of a run depends only on seed + i, so `--seed N --runs 1` repeats a failure. A run
// fails on a sanitizer's report, on an exception that leaves the reader, and on an input that takes
// more memory than kMemoryFactor times its size and than kMemoryFloor, or more than kCpuSeconds.
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

#include "corpus.h"
#include "targets.h"

// A single allocation that is larger than any input could need ends the run.
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=256:allocator_may_return_null=0:handle_abort=1:"
         "detect_stack_use_after_return=0:malloc_context_size=8:quarantine_size_mb=16";
}

// g++ has these functions in its library, but does not declare them.
extern "C" size_t __sanitizer_get_allocated_size(const volatile void* pointer);
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*,
                                                                             size_t),
                                                         void (*free_hook)(const volatile void*));

namespace pie::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMemoryFloor = size_t{16} << 20;
constexpr size_t kMemoryFactor = 64;
constexpr double kCpuSeconds =
    5;  // for one input in this slow build; real readers take microseconds

// Memory is counted by hooks of the allocator, which see the allocations of every library.
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

// Which input is being read, for the message of a failure.
const char* current_target = "";
uint64_t current_seed = 0;
int current_file = -1;  // the number of a file of the corpus, if one is being read

void SayHowToRepeat() {
  if (current_file >= 0) {
    fmt::print(stderr, "pie-fuzz: FAILED at file {} of fuzz/corpus/{}\n", current_file,
               current_target);
    return;
  }
  fmt::print(stderr, "pie-fuzz: FAILED; to repeat: pie-fuzz {} --seed {} --runs 1\n",
             current_target, current_seed);
}

void OnTimeout(int) {
  // No allocation here: the signal may have come inside the allocator.
  constexpr char kText[] = "pie-fuzz: an input takes more than 5 s of processor time\n";
  (void)!write(STDERR_FILENO, kText, sizeof(kText) - 1);
  std::abort();  // the sanitizer prints the stack, then calls SayHowToRepeat
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

struct Tally {
  uint64_t inputs = 0;
  uint64_t accepted = 0;
  size_t most_memory = 0;
  double slowest_ms = 0;
};

void RunInput(const Target& target, const std::string& bytes, Tally& tally) {
  const size_t before = live;
  peak = before;
  LimitCpu(kCpuSeconds);
  const std::clock_t start = std::clock();
  tally.accepted += target.read(bytes) ? 1 : 0;
  const double ms = static_cast<double>(std::clock() - start) * 1e3 / CLOCKS_PER_SEC;
  LimitCpu(0);
  const size_t used = peak - before;
  const size_t allowed = std::max(kMemoryFloor, kMemoryFactor * bytes.size());
  if (used > allowed) {
    Fail(fmt::format("an input of {} bytes took {} MB of memory", bytes.size(), used >> 20));
  }
  tally.most_memory = std::max(tally.most_memory, used);
  tally.slowest_ms = std::max(tally.slowest_ms, ms);
  ++tally.inputs;
}

void RunTarget(const Target& target, uint64_t seed, uint64_t runs, double seconds) {
  Tally tally;
  current_target = target.name;
  if (runs > 1) {
    for (const std::string& bytes : Corpus(target.name)) {
      ++current_file;
      RunInput(target, bytes, tally);
    }
    current_file = -1;
  }
  const auto start = Clock::now();
  for (uint64_t i = 0; i < runs; ++i) {
    if (std::chrono::duration<double>(Clock::now() - start).count() > seconds) break;
    current_seed = seed + i;
    Dice dice(current_seed);
    RunInput(target, target.make(dice), tally);
  }
  fmt::print("{:12} {:8} inputs, {:7} accepted; at most {:.1f} MB and {:.0f} ms each\n",
             target.name, tally.inputs, tally.accepted,
             static_cast<double>(tally.most_memory) / 1e6, tally.slowest_ms);
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
      return fmt::print(
                 stderr,
                 "pie-fuzz: unknown option {}; the options are --seed, --runs, --seconds, --file\n",
                 word),
             2;
  }
  std::vector<Target> chosen;
  for (const Target& target : Targets()) {
    if (names.empty() || std::ranges::find(names, target.name) != names.end()) {
      chosen.push_back(target);
    }
  }
  if (chosen.empty()) return fmt::print(stderr, "pie-fuzz: no target has that name\n"), 2;

  setenv("RUST_BACKTRACE", "0", 1);  // reading symbols takes more memory than an input may
  __sanitizer_set_death_callback(SayHowToRepeat);
  __sanitizer_install_malloc_and_free_hooks(OnMalloc, OnFree);
  std::signal(SIGPROF, OnTimeout);
  if (!file.empty()) {
    std::ifstream in(file, std::ios::binary);
    Tally tally;
    current_target = chosen.front().name;
    RunInput(chosen.front(), std::string(std::istreambuf_iterator<char>(in), {}), tally);
    fmt::print("{}\n", tally.accepted != 0 ? "accepted" : "refused");
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
