// pie-adapter-bench MODEL.gguf: what adapters cost on the CPU backend, as one JSON object.
// pie-adapter-bench MODEL.gguf one: the speed of one sequence under one adapter.
// pie-adapter-bench MODEL.gguf shape: the sizes of the model's matrices.
//
// The cases are measured in turn, round by round, and a ratio is the median of the rounds' ratios,
// so that a machine that slows down for a while slows all of them.
#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "bare_loop.h"
#include "base/random.h"
#include "model/adapter/peft.h"
#include "must.h"

namespace pie {
namespace {

constexpr uint32_t kThreads = 2;
constexpr uint32_t kBatch = 16;
constexpr uint32_t kRank = 16;
constexpr uint32_t kContext = 32;
constexpr uint32_t kSteps = 16;
constexpr uint32_t kOneSteps = 64;
constexpr uint32_t kPrompt = 512;
constexpr int kRounds = 7;

using Clock = std::chrono::steady_clock;
using Sequence = BareLoop::Sequence;

double Milliseconds(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

AdapterWeights RandomAdapter(const AdapterShape& shape, uint64_t seed, bool all) {
  AdapterWeights weights = Must(MakeAdapter(shape, kRank, kRank));
  const CounterRng rng{seed};
  uint64_t counter = 0;
  for (AdapterWeights::Layer& layer : weights.layers) {
    for (uint32_t slot = 0; slot < layer.size(); ++slot) {
      LowRank& part = layer[slot];
      const bool is_default =
          slot == AdapterSlot(AdapterTarget::kQ) || slot == AdapterSlot(AdapterTarget::kV);
      if (!all && !is_default) part = {};
      for (float& number : part.b) number = (rng.Float(counter++) - 0.5F) * 0.02F;
    }
  }
  return weights;
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Bench {
 public:
  explicit Bench(const std::string& model)
      : backend_(Must(MakeCpuBackend(model, {.total_pages = 2'048, .threads = kThreads}))),
        loop_(*backend_) {}

  const AdapterShape& shape() const { return backend_->info().adapters; }
  DeviceAdapterPtr Load(const AdapterWeights& weights) {
    return Must(backend_->LoadAdapter(weights));
  }

  // The time of a step of 16 sequences that `prepare` gives adapters to.
  double Decode(const std::function<void(std::vector<Sequence>&)>& prepare) {
    if (fed_.empty()) FeedAll();
    std::vector<Sequence> sequences = fed_;
    prepare(sequences);
    loop_.Step(sequences);  // brings the adapters into the caches as far as they fit
    const auto begin = Clock::now();
    for (uint32_t step = 0; step < kSteps; ++step) loop_.Step(sequences);
    return Milliseconds(begin) / kSteps;
  }

  // Tokens per second of one sequence, as the driver of llama.cpp counts them.
  double DecodeOne(const DeviceAdapter* adapter, uint32_t steps) {
    std::vector<Sequence> one(1);
    one[0].adapter = adapter;
    loop_.Feed(one[0], Tokens(kContext, 3));
    loop_.Step(one);
    const auto begin = Clock::now();
    for (uint32_t step = 0; step < steps; ++step) loop_.Step(one);
    return steps * 1e3 / Milliseconds(begin);
  }

  double Prefill(const DeviceAdapter* adapter) {
    prompt_.adapter = adapter;
    prompt_.tokens = 0;  // its pages are used again
    const std::vector<uint32_t> tokens = Tokens(kPrompt, 7);
    const auto begin = Clock::now();
    loop_.Feed(prompt_, tokens);
    return Milliseconds(begin);
  }

 private:
  // Feeds the contexts of all sequences, and gives them the pages of the steps that follow.
  void FeedAll() {
    fed_.resize(kBatch);
    for (uint32_t i = 0; i < kBatch; ++i) loop_.Feed(fed_[i], Tokens(kContext, i));
    std::vector<Sequence> stepped = fed_;
    for (uint32_t step = 0; step <= kSteps; ++step) loop_.Step(stepped);
    for (uint32_t i = 0; i < kBatch; ++i) fed_[i].pages = stepped[i].pages;
  }

  std::vector<uint32_t> Tokens(uint32_t count, uint64_t seed) const {
    std::vector<uint32_t> tokens(count);
    for (uint32_t i = 0; i < count; ++i) {
      tokens[i] = 20 + Mix(seed, i) % (backend_->info().vocab_size - 20);
    }
    return tokens;
  }

  const std::unique_ptr<Backend> backend_;
  BareLoop loop_;
  std::vector<Sequence> fed_;
  Sequence prompt_;
};

// Speeds with adapters ÷ without, for adapters on some or on all projections.
void MeasureSpeed(Bench& bench, bool all, nlohmann::ordered_json& result) {
  std::vector<DeviceAdapterPtr> adapters;
  for (uint64_t i = 0; i < kBatch; ++i) {
    adapters.push_back(bench.Load(RandomAdapter(bench.shape(), i, all)));
  }
  const auto none = [](std::vector<Sequence>&) {};
  const auto one = [&](std::vector<Sequence>& sequences) {
    for (Sequence& sequence : sequences) sequence.adapter = adapters[0].get();
  };
  const auto each = [&](std::vector<Sequence>& sequences) {
    for (size_t i = 0; i < sequences.size(); ++i) sequences[i].adapter = adapters[i].get();
  };
  const auto seeds = [&](std::vector<Sequence>& sequences) {
    one(sequences);
    for (size_t i = 0; i < sequences.size(); ++i) {
      sequences[i].zo_seed = static_cast<int64_t>(i + 1);
      sequences[i].zo_sigma = 0.01F;
    }
  };
  bench.Decode(each);
  bench.Prefill(adapters[0].get());
  std::vector<double> of_each, of_one, of_seeds, of_prefill;
  for (int round = 0; round < kRounds; ++round) {
    const double plain = bench.Decode(none);
    of_each.push_back(plain / bench.Decode(each));
    of_one.push_back(plain / bench.Decode(one));
    of_seeds.push_back(plain / bench.Decode(seeds));
    const double prompt = bench.Prefill(nullptr);
    of_prefill.push_back(prompt / bench.Prefill(adapters[0].get()));
  }
  const std::string suffix = all ? "_all" : "";
  result["lora16_b16_ratio" + suffix] = Median(of_each);
  result["lora1_b16_ratio" + suffix] = Median(of_one);
  result["lora_prefill_ratio" + suffix] = Median(of_prefill);
  result["zo16_b16_ratio" + suffix] = Median(of_seeds);
}

// The time from a folder's contents to the device's form, of an adapter on all projections.
double MeasureLoad(Bench& bench) {
  const PeftFiles files = Must(WritePeft(RandomAdapter(bench.shape(), 1, true), bench.shape()));
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    bench.Load(
        Must(ReadPeft(files.config, std::as_bytes(std::span(files.tensors)), bench.shape())));
    times.push_back(Milliseconds(begin));
  }
  return Median(times);
}

double MeasureOne(Bench& bench) {
  const DeviceAdapterPtr adapter = bench.Load(RandomAdapter(bench.shape(), 1, false));
  bench.DecodeOne(adapter.get(), kOneSteps);
  std::vector<double> speeds;
  for (int repeat = 0; repeat < 3; ++repeat) {
    speeds.push_back(bench.DecodeOne(adapter.get(), kOneSteps));
  }
  return Median(speeds);
}

int Main(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[2] : "";
  if (argc < 2 || argc > 3 || (argc == 3 && what != "one" && what != "shape")) {
    fmt::print(stderr, "usage: pie-adapter-bench MODEL.gguf [one|shape]\n");
    return 2;
  }
  Bench bench(argv[1]);
  nlohmann::ordered_json result;
  if (what == "one") {
    result["tps"] = MeasureOne(bench);
  } else if (what == "shape") {
    const AdapterShape& shape = bench.shape();
    result["layers"] = shape.layers;
    result["hidden"] = shape.Of(AdapterTarget::kQ).in;
    result["q"] = shape.Of(AdapterTarget::kQ).out;
    result["v"] = shape.Of(AdapterTarget::kV).out;
  } else {
    MeasureSpeed(bench, false, result);
    MeasureSpeed(bench, true, result);
    result["lora_load_ms"] = MeasureLoad(bench);
  }
  fmt::print("{}\n", result.dump(2));
  return 0;
}

}  // namespace
}  // namespace pie

int main(int argc, char** argv) {
  return pie::Main(argc, argv);
}
