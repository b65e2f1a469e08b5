// pie-cpu-bench: measures the CPU backend, driven by batches as the step loop would build them.
// Prints one flat JSON object.
//
//   pie-cpu-bench prefill --model FILE [--tokens 512] [--level avx2]
//   pie-cpu-bench decode  --model FILE [--batch 8] [--context 32]
//   pie-cpu-bench shared  --model FILE [--batch 16] [--context 512]   all sequences share a prefix
//   pie-cpu-bench limits                                              what the machine itself can
//   do
//
// Tokens are random. Times include greedy sampling. A process measures one mode, so that the peak
// of its memory is that mode's.
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

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine/thread_pool.h"
#include "bare_loop.h"
#include "machine_limits.h"
#include "model/gguf.h"
#include "must.h"

namespace pie {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string model;
  uint32_t threads = 0;
  cpu::CpuLevel level = cpu::DetectCpuLevel();
  uint32_t tokens = 512;  // length of the prefill
  uint32_t batch = 1;     // number of sequences
  uint32_t context = 32;  // tokens of each sequence before the first step
  uint32_t own = 16;      // shared: tokens of each sequence after the prefix
  uint32_t steps = 64;    // steps of a decode
  uint32_t repeats = 5;
  uint32_t page_tokens = 16;
  uint32_t chunk = CpuOptions{}.max_batch_tokens;  // most tokens of a batch in a prefill
};

double Milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

// Processor time of all threads, including the time that they spin.
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

using Sequence = BareLoop::Sequence;

// Feeds random tokens to a device. The same seed gives every run the same tokens.
class RandomTokens {
 public:
  explicit RandomTokens(uint32_t vocab_size) : vocab_size_(vocab_size) {}

  void Feed(BareLoop& loop, Sequence& sequence, uint32_t count) {
    std::vector<uint32_t> tokens(count);
    // The first tokens of most vocabularies have special meanings.
    std::ranges::generate(tokens, [&] { return 20 + random_() % (vocab_size_ - 20); });
    loop.Feed(sequence, tokens);
  }

 private:
  const uint32_t vocab_size_;
  std::mt19937 random_{42};
};

struct Sample {
  double tokens_per_s;
  double cpu_ms_per_token;
  double prefix_ms;  // time before the measured part
};

Sample Prefill(BareLoop& loop, RandomTokens& random, const Options& options) {
  Sequence sequence;
  const double cpu = CpuMilliseconds();
  const auto begin = Clock::now();
  random.Feed(loop, sequence, options.tokens);
  const double tokens_per_s = options.tokens * 1e3 / Milliseconds(begin);
  return {tokens_per_s, (CpuMilliseconds() - cpu) / options.tokens, 0};
}

Sample Decode(BareLoop& loop, RandomTokens& random, const Options& options, bool shared) {
  std::vector<Sequence> sequences(options.batch);
  const auto before = Clock::now();
  if (shared) {
    Sequence prefix;
    random.Feed(loop, prefix, options.context / options.page_tokens * options.page_tokens);
    std::ranges::fill(sequences, prefix);  // its pages are full: no sequence writes to them
  }
  for (Sequence& sequence : sequences) {
    random.Feed(loop, sequence, shared ? options.own : options.context);
  }
  const double prefix_ms = Milliseconds(before);
  const double tokens = 1.0 * options.batch * options.steps;
  const double cpu = CpuMilliseconds();
  const auto begin = Clock::now();
  for (uint32_t step = 0; step < options.steps; ++step) loop.Step(sequences);
  const double tokens_per_s = tokens * 1e3 / Milliseconds(begin);
  return {tokens_per_s, (CpuMilliseconds() - cpu) / tokens, prefix_ms};
}

// Adds the least work of a step. `weight_bytes`: decoding one sequence reads all tensors once,
// except an embedding that is not also the head, of which it reads one row. `layer_weights`: each
// weight of the layers' matrices costs one multiplication and one addition per token.
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
  BareLoop loop(*backend);
  RandomTokens random(backend->info().vocab_size);
  const auto run = [&](const Options& how) {
    loop.Reset();
    return mode == "prefill" ? Prefill(loop, random, how)
                             : Decode(loop, random, how, mode == "shared");
  };
  // Buffers grow and pages are touched for the first time in a run that does not count.
  Options warm = options;
  warm.steps = std::min(options.steps, 4U);
  run(warm);

  std::vector<Sample> samples;
  for (uint32_t i = 0; i < options.repeats; ++i) samples.push_back(run(options));
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
  app.add_option("--threads", options.threads, "threads; 0 = one per processor");
  std::string mode;
  const auto add = [&](const char* name, const char* what) {
    CLI::App* const command = app.add_subcommand(name, what);
    command->fallthrough()->callback([&mode, name] { mode = name; });
    return command;
  };
  CLI::App* const prefill = add("prefill", "one prompt");
  CLI::App* const decode = add("decode", "sequences that step together");
  CLI::App* const shared = add("shared", "sequences that step together and share a prefix");
  add("limits", "read bandwidth and int8 throughput of this machine");
  std::map<std::string, cpu::CpuLevel> levels;
  for (const auto each : cpu::SupportedCpuLevels()) levels[std::string(NameOf(each))] = each;
  std::string level(NameOf(options.level));
  prefill->add_option("--tokens", options.tokens, "length of the prompt")->capture_default_str();
  for (CLI::App* command : {prefill, decode, shared}) {
    command->add_option("--model", options.model, "a GGUF file or a Hugging Face folder")
        ->required();
    command->add_option("--level", level, "instruction set of the kernels; default: the best")
        ->check(CLI::IsMember(levels));
    command->add_option("--repeats", options.repeats, "runs, of which the median is reported")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--chunk", options.chunk, "most tokens of a prefill in one batch")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command->add_option("--page-tokens", options.page_tokens, "tokens per page")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  }
  for (CLI::App* command : {decode, shared}) {
    command->add_option("--batch", options.batch, "number of sequences")
        ->check(CLI::PositiveNumber);
    command->add_option("--context", options.context,
                        "tokens of each sequence before the first step");
    command->add_option("--steps", options.steps, "steps, each a token of every sequence")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  }
  shared->add_option("--own", options.own, "tokens of each sequence after the prefix");
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
