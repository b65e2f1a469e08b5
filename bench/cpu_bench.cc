// pie-cpu-bench: what the CPU backend does, driven by batches as the step loop would build them.
// Prints one flat JSON object.
//
//   pie-cpu-bench prefill --model FILE [--tokens 512] [--level avx2]
//   pie-cpu-bench decode  --model FILE [--batch 8] [--context 32]
//   pie-cpu-bench shared  --model FILE [--batch 16] [--context 512]   one prefix for all sequences
//   pie-cpu-bench limits                                              of the machine itself
//
// Tokens are random, sampling is greedy and counted in. One mode a process, so that the peak of
// memory is that mode's own.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine/thread_pool.h"
#include "machine_limits.h"
#include "model/gguf.h"

namespace pie {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string model;
  uint32_t threads = 0;
  cpu::CpuLevel level = cpu::DetectCpuLevel();
  uint32_t tokens = 512;  // of a prefill
  uint32_t batch = 1;     // sequences
  uint32_t context = 32;  // tokens of each before the first step
  uint32_t own = 16;      // shared: tokens of each behind the prefix
  uint32_t steps = 64;    // of a decode
  uint32_t repeats = 5;
  uint32_t page_tokens = 16;
  uint32_t chunk = CpuOptions{}.max_batch_tokens;  // of a prefill
};

double Milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

// Of all threads, waiting by spinning included.
double CpuMilliseconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

double PeakMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// An error ends the program: a benchmark of something broken is worth nothing.
template <class T>
T Must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "pie-cpu-bench: {}\n", result.error().text);
    std::exit(1);
  }
  return *std::move(result);
}

// Sequences and their pages, as the step loop keeps them.
class Driver {
 public:
  Driver(Backend& backend, uint32_t page_tokens) : backend_(backend), page_tokens_(page_tokens) {}

  struct Sequence {
    std::vector<PageId> pages;
    uint32_t tokens = 0;  // that the pages hold
    uint32_t next = 0;    // input of the next step
  };

  uint32_t RandomToken() { return 20 + random_() % (backend_.info().vocab_size - 20); }

  // Runs `count` random tokens of each sequence, one after another, in chunks that the backend
  // takes; the greedy token of the last row is the next input.
  void Feed(std::vector<Sequence*> sequences, uint32_t count) {
    const uint32_t most = backend_.info().max_batch_tokens;
    for (Sequence* sequence : sequences) {
      for (uint32_t done = 0; done < count;) {
        const uint32_t rows = std::min(most, count - done);
        std::vector<uint32_t> tokens(rows);
        std::ranges::generate(tokens, [&] { return RandomToken(); });
        Add(*sequence, tokens);
        Run({sequence});
        done += rows;
      }
    }
  }

  // One token more for each.
  void Step(const std::vector<Sequence*>& sequences) {
    for (Sequence* sequence : sequences) Add(*sequence, {sequence->next});
    Run(sequences);
  }

  void Reset() { free_page_ = 0; }

 private:
  void Add(Sequence& sequence, const std::vector<uint32_t>& tokens) {
    const auto rows = static_cast<uint32_t>(tokens.size());
    while (sequence.pages.size() * page_tokens_ < sequence.tokens + rows) {
      if (free_page_ == backend_.info().total_pages) {
        fmt::print(stderr, "pie-cpu-bench: out of pages; ask for fewer sequences or tokens\n");
        std::exit(1);
      }
      sequence.pages.push_back(PageId{free_page_++});
    }
    batch_.members.push_back({.first_row = static_cast<uint32_t>(batch_.tokens.size()),
                              .rows = rows,
                              .first_page = static_cast<uint32_t>(batch_.pages.size()),
                              .pages = static_cast<uint32_t>(sequence.pages.size()),
                              .kv_tokens = sequence.tokens});
    batch_.tokens.insert(batch_.tokens.end(), tokens.begin(), tokens.end());
    batch_.pages.insert(batch_.pages.end(), sequence.pages.begin(), sequence.pages.end());
    for (uint32_t i = 0; i < rows; ++i) batch_.positions.push_back(sequence.tokens + i);
    sequence.tokens += rows;
  }

  void Run(const std::vector<Sequence*>& sequences) {
    samples_.resize(batch_.members.size());
    for (size_t i = 0; i < samples_.size(); ++i) {
      samples_[i].assign(1, SampleSpec{.rows = {batch_.members[i].rows - 1}});
      batch_.members[i].samples = &samples_[i];
    }
    const BatchOutput output = Must(backend_.Wait(Must(backend_.Submit(batch_))));
    for (size_t i = 0; i < sequences.size(); ++i) {
      sequences[i]->next = std::get<TokenSlot>(output.slots[i].at(0)).token;
    }
    batch_ = {};
  }

  Backend& backend_;
  const uint32_t page_tokens_;
  Batch batch_;
  std::vector<std::vector<SampleSpec>> samples_;  // [members]
  std::mt19937 random_{42};
  uint32_t free_page_ = 0;
};

struct Sample {
  double tokens_per_s;
  double cpu_ms_per_token;
  double prefix_ms;  // of what came before the measured part
};

Sample Prefill(Driver& driver, const Options& options) {
  Driver::Sequence sequence;
  const double cpu = CpuMilliseconds();
  const auto begin = Clock::now();
  driver.Feed({&sequence}, options.tokens);
  const double tokens_per_s = options.tokens * 1e3 / Milliseconds(begin);
  return {tokens_per_s, (CpuMilliseconds() - cpu) / options.tokens, 0};
}

Sample Decode(Driver& driver, const Options& options, bool shared) {
  std::vector<Driver::Sequence> sequences(options.batch);
  std::vector<Driver::Sequence*> all;
  for (Driver::Sequence& sequence : sequences) all.push_back(&sequence);
  const auto before = Clock::now();
  if (shared) {
    Driver::Sequence prefix;
    driver.Feed({&prefix}, options.context / options.page_tokens * options.page_tokens);
    std::ranges::fill(sequences, prefix);  // full pages, so nobody writes to them again
    driver.Feed(all, options.own);
  } else {
    driver.Feed(all, options.context);
  }
  const double prefix_ms = Milliseconds(before);
  const double tokens = 1.0 * options.batch * options.steps;
  const double cpu = CpuMilliseconds();
  const auto begin = Clock::now();
  for (uint32_t step = 0; step < options.steps; ++step) driver.Step(all);
  const double tokens_per_s = tokens * 1e3 / Milliseconds(begin);
  return {tokens_per_s, (CpuMilliseconds() - cpu) / tokens, prefix_ms};
}

// What a step cannot do without: the bytes of all tensors, which decoding one sequence reads (where
// the embedding is not also the head, a row of it), and the weights of the layers' matrices, each
// one multiplication and one addition a token.
void AddWeights(const std::string& model, nlohmann::ordered_json& result) {
  if (std::filesystem::is_directory(model)) return;
  const Gguf gguf = Must(Gguf::Open(model));
  const bool tied = gguf.tensors().Find("output.weight") == nullptr;
  uint64_t bytes = 0;
  uint64_t weights = 0;
  for (const Tensor& tensor : gguf.tensors().all()) {
    if (tied || tensor.name != "token_embd.weight") bytes += tensor.data.size();
    if (tensor.name.starts_with("blk.") && tensor.shape.size() == 2) weights += tensor.elements();
  }
  result["weight_bytes"] = bytes;
  result["layer_weights"] = weights;
}

nlohmann::ordered_json Measure(const std::string& mode, const Options& options) {
  const auto begin = Clock::now();
  const uint32_t longest = std::max(options.tokens, options.context) + options.own + options.steps;
  const uint32_t pages_each = longest / options.page_tokens + 2;
  const auto backend =
      Must(MakeCpuBackend(options.model, {.page_tokens = options.page_tokens,
                                          .total_pages = pages_each * (options.batch + 1),
                                          .threads = options.threads,
                                          .max_batch_tokens = options.chunk,
                                          .level = options.level}));
  const double load_ms = Milliseconds(begin);
  Driver driver(*backend, options.page_tokens);
  const auto run = [&] {
    driver.Reset();
    return mode == "prefill" ? Prefill(driver, options) : Decode(driver, options, mode == "shared");
  };
  // Buffers grow and pages are touched for the first time in a run that does not count.
  Options warm = options;
  warm.steps = std::min(options.steps, 4U);
  driver.Reset();
  mode == "prefill" ? Prefill(driver, warm) : Decode(driver, warm, mode == "shared");

  std::vector<Sample> samples;
  for (uint32_t i = 0; i < options.repeats; ++i) samples.push_back(run());
  std::ranges::sort(samples, {}, &Sample::tokens_per_s);
  const Sample& median = samples[samples.size() / 2];
  nlohmann::ordered_json result;
  result["mode"] = mode;
  result["threads"] = options.threads;
  result["level"] = cpu::NameOf(options.level);
  result["batch"] = mode == "prefill" ? 1 : options.batch;
  result["context"] = mode == "prefill" ? options.tokens : options.context;
  result["tokens_per_s"] = median.tokens_per_s;
  result["tokens_per_s_min"] = samples.front().tokens_per_s;
  result["tokens_per_s_max"] = samples.back().tokens_per_s;
  result["cpu_ms_per_token"] = median.cpu_ms_per_token;
  if (mode != "prefill") result["prefix_ms"] = median.prefix_ms;
  result["load_ms"] = load_ms;
  result["peak_rss_mb"] = PeakMegabytes();
  AddWeights(options.model, result);
  return result;
}

nlohmann::ordered_json MeasureLimits(const Options& options) {
  return {{"mode", "limits"},
          {"threads", options.threads},
          {"read_gb_per_s", MeasureReadBandwidth(options.threads) / 1e9},
          {"int8_gop_per_s", MeasureInt8Peak(options.threads) / 1e9}};
}

int Main(int argc, char** argv) {
  CLI::App app("Measures the CPU backend; prints one JSON object.");
  Options options;
  app.require_subcommand(1);
  app.add_option("--threads", options.threads, "threads; 0 = one a processor");
  std::string mode;
  const auto add = [&](const char* name, const char* what) {
    CLI::App* const command = app.add_subcommand(name, what);
    command->fallthrough()->callback([&mode, name] { mode = name; });
    return command;
  };
  CLI::App* const prefill = add("prefill", "one prompt");
  CLI::App* const decode = add("decode", "sequences that step together");
  CLI::App* const shared = add("shared", "the same, behind one prefix");
  add("limits", "read bandwidth and byte products of this machine");
  std::map<std::string, cpu::CpuLevel> levels;
  for (const auto each : cpu::SupportedCpuLevels()) levels[std::string(NameOf(each))] = each;
  std::string level(NameOf(options.level));
  prefill->add_option("--tokens", options.tokens, "of the prompt")->capture_default_str();
  for (CLI::App* command : {prefill, decode, shared}) {
    command->add_option("--model", options.model, "a GGUF file or a Hugging Face folder")
        ->required();
    command->add_option("--level", level, "of the kernels; the best by itself")
        ->check(CLI::IsMember(levels));
    command->add_option("--repeats", options.repeats, "the median counts")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--chunk", options.chunk, "most tokens of a prefill in one batch")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--page-tokens", options.page_tokens, "tokens a page")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  }
  for (CLI::App* command : {decode, shared}) {
    command->add_option("--batch", options.batch, "sequences")->check(CLI::PositiveNumber);
    command->add_option("--context", options.context, "tokens before the first step");
    command->add_option("--steps", options.steps, "tokens of each sequence")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  }
  shared->add_option("--own", options.own, "tokens of each sequence behind the prefix");
  CLI11_PARSE(app, argc, argv);
  options.level = levels.at(level);
  if (shared->parsed() && shared->count("--context") == 0) options.context = 512;
  if (shared->parsed() && shared->count("--batch") == 0) options.batch = 16;
  const unsigned available = cpu::ThreadPool::AvailableCpus();
  options.threads = options.threads == 0 ? available : std::min(options.threads, available);
  fmt::print("{}\n", (mode == "limits" ? MeasureLimits(options) : Measure(mode, options)).dump());
  return 0;
}

}  // namespace
}  // namespace pie

int main(int argc, char** argv) {
  return pie::Main(argc, argv);
}
