// pie-gpu-bench: measures the CUDA backend on random weights of real shapes, driven by batches as
// the step loop would build them. Prints one flat JSON object.
//
//   pie-gpu-bench [--shape 8b|1b|0.6b|30b-a3b] [--quick] [--deterministic] [--weights bf16|fp8]
//                 [--kv bf16|fp8] [--without products|attention]
//                 [--only decode_1|decode_8|decode_64|decode_256|prefix_64|prefill_2048]
//   pie-gpu-bench --open MODEL [--weights bf16|fp8]
//
// The second form opens a model from a file or a folder, without recording graphs, and prints how
// long that took: the first time, when the files may come from a disk, and the best of three.
//
// With --weights fp8, the layers' matrices are in fp8; the embedding and the head stay in bfloat16,
// as in published checkpoints. The roof counts the bytes that are there.
//
// --without leaves a phase out of every step: the difference is what it costs.
//
// The roof of a step is the sum over its phases, products and attention, of the longer of its bytes
// ÷ the card's read bandwidth and its operations ÷ the best rate of a large product; both are
// measured in the same run. A share is the roof's time ÷ the measured time. Of a layer's experts,
// the roof counts those that are read if every row chooses at random.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/kernels/blas.h"
#include "backend/cuda/kernels/random_fill.h"
#include "backend/cuda/kernels/runtime.h"
#include "bare_loop.h"
#include "gpu_shapes.h"
#include "must.h"

namespace pie {
namespace {

using Clock = std::chrono::steady_clock;
using Sequence = BareLoop::Sequence;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

double ReadBandwidth() {
  constexpr uint64_t kBytes = 16ULL << 30;
  void* const memory = cuda::Allocate(kBytes);
  void* const sink = cuda::Allocate(16);
  if (memory == nullptr) return 0;
  const cuda::Stream stream = cuda::MakeStream();
  cuda::Fill(memory, 1, kBytes, stream);
  const cuda::Event begin = cuda::MakeEvent();
  const cuda::Event end = cuda::MakeEvent();
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    cuda::RecordEvent(begin, stream);
    cuda::ReadAll(memory, kBytes, static_cast<uint32_t*>(sink), stream);
    cuda::RecordEvent(end, stream);
    best = std::max(best, kBytes / (cuda::MillisecondsBetween(begin, end) / 1e3));
  }
  cuda::Free(memory);
  cuda::Free(sink);
  return best;
}

// Seconds that cuBLASLt takes for x · Wᵀ of the given sizes, with its fastest algorithm.
double ProductSeconds(uint32_t n, uint32_t k, uint32_t rows) {
  std::string why;
  static const auto blas = cuda::Blas::Load(&why);
  if (blas == nullptr) Must<int>(Fail(Code::kUnavailable, "{}", why));
  const cuda::Stream stream = cuda::MakeStream();
  void* const w = cuda::Allocate(uint64_t{n} * k * 2);
  void* const x = cuda::Allocate(uint64_t{rows} * k * 2);
  void* const y = cuda::Allocate(uint64_t{rows} * n * 2);
  cuda::FillRandom(w, uint64_t{n} * k, 1, 0.03F, stream);
  cuda::FillRandom(x, uint64_t{rows} * k, 2, 1, stream);
  const std::vector<const void*> matrices(8, w);
  const float ms = blas->Tune({.w = w, .x = x, .y = y, .n = n, .k = k, .rows = rows, .y_stride = n},
                              matrices, stream);
  for (void* const memory : {w, x, y}) cuda::Free(memory);
  cuda::DestroyStream(stream);
  return ms / 1e3;
}

// The best rate of a large product, in operations a second.
double ProductRate() {
  return 2.0 * 28'672 * 4096 * 4096 / ProductSeconds(28'672, 4096, 4096);
}

// cuBLASLt's own time for the products of all layers.
double LayerProductSeconds(const ModelConfig& c, uint32_t rows) {
  const uint32_t q = c.heads * c.head_dim;
  const bool has_experts = c.moe.experts > 0;
  const uint32_t ffn = has_experts ? c.moe.ffn_size : c.ffn_size;
  const uint32_t parts = std::max(c.moe.experts, 1U);
  const uint32_t rows_each = has_experts ? rows * c.moe.experts_used / parts : rows;
  return c.layers * (ProductSeconds(q + 2 * c.kv_heads * c.head_dim, c.hidden_size, rows) +
                     ProductSeconds(c.hidden_size, q, rows) +
                     parts * (ProductSeconds(2 * ffn, c.hidden_size, rows_each) +
                              ProductSeconds(c.hidden_size, ffn, rows_each)));
}

struct Limits {
  double bytes_per_s;
  double flop_per_s;
  // Of a number, with its part of the scales.
  double weight_bytes;  // in the layers
  double key_bytes;
};

// How many experts of a layer are read, if each of `rows` rows chooses at random.
double ExpertsRead(const ModelConfig& c, double rows) {
  if (c.moe.experts == 0) return 0;
  const double missed = 1 - 1.0 * c.moe.experts_used / c.moe.experts;  // by one row
  return c.moe.experts * (1 - std::pow(missed, rows));
}

// Numbers in the matrices that a step multiplies: the matrices of the layers, with `experts`
// experts of each layer, and the head.
double LayerWeightCount(const ModelConfig& c, double experts) {
  const double qkv = 1.0 * (c.heads + 2 * c.kv_heads) * c.head_dim * c.hidden_size;
  const double o = 1.0 * c.heads * c.head_dim * c.hidden_size;
  const double feed_forward =
      c.moe.experts == 0 ? 3.0 * c.ffn_size : 3.0 * experts * c.moe.ffn_size + c.moe.experts;
  return c.layers * (qkv + o + feed_forward * c.hidden_size);
}
double HeadWeightCount(const ModelConfig& c) {
  return 1.0 * c.vocab_size * c.hidden_size;
}

// Seconds that a step of `rows` sequences takes at least, each reading `context` keys of its own,
// and all of them `shared` keys in common.
double RoofOf(const ModelConfig& c, const Limits& limits, double rows, double context,
              double shared = 0) {
  const double bytes =
      LayerWeightCount(c, ExpertsRead(c, rows)) * limits.weight_bytes + HeadWeightCount(c) * 2;
  const double weights = LayerWeightCount(c, c.moe.experts_used) + HeadWeightCount(c);
  const double products =
      std::max(bytes / limits.bytes_per_s, 2 * weights * rows / limits.flop_per_s);
  const double key_bytes = 2.0 * c.layers * c.kv_heads * c.head_dim * limits.key_bytes;
  const double attention = std::max(
      (rows * context + shared) * key_bytes / limits.bytes_per_s,
      4.0 * rows * (context + shared) * c.layers * c.heads * c.head_dim / limits.flop_per_s);
  return products + attention;
}

class RandomTokens {
 public:
  explicit RandomTokens(uint32_t vocab) : vocab_(vocab) {}
  std::vector<uint32_t> Take(uint32_t count) {
    std::vector<uint32_t> tokens(count);
    std::ranges::generate(tokens, [&] { return static_cast<uint32_t>(random_() % vocab_); });
    return tokens;
  }

 private:
  uint32_t vocab_;
  std::mt19937 random_{42};
};

// While it lives, profilers see what runs on the device (ncu --profile-from-start off).
class Profiled {
 public:
  Profiled() { Call("cuProfilerStart"); }
  ~Profiled() { Call("cuProfilerStop"); }

 private:
  static void Call(const char* name) {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) return;
    if (void* const function = dlsym(driver, name)) reinterpret_cast<int (*)()>(function)();
  }
};

// Seconds that a step takes in a chained decode.
double Chained(BareLoop& loop, std::vector<Sequence>& sequences, uint32_t steps) {
  const auto begin = Clock::now();
  loop.Chain(sequences, steps);
  return Seconds(begin) / steps;
}
double ChainedAndProfiled(BareLoop& loop, std::vector<Sequence>& sequences, uint32_t steps) {
  const Profiled profiled;
  return Chained(loop, sequences, steps);
}

void Reserve(std::vector<Sequence>& sequences, uint32_t tokens, uint32_t page_tokens,
             uint32_t& next_page) {
  for (Sequence& sequence : sequences) {
    while (sequence.pages.size() * page_tokens < tokens) {
      sequence.pages.push_back(PageId{next_page++});
    }
  }
}

constexpr std::string_view kParts[] = {"decode_1",   "decode_8",  "decode_64",
                                       "decode_256", "prefix_64", "prefill_2048"};

// Measures the part with the name `only`, or all of them if it is empty.
int Run(const std::string& shape, bool quick, std::string_view only, const CudaOptions& options) {
  const auto wanted = [&](std::string_view part) { return only.empty() || part == only; };
  nlohmann::ordered_json result;
  const ModelConfig config = ShapeOf(shape);
  const CudaStatus status = FindCudaDevices();
  if (status.devices.empty()) Must<int>(Fail(Code::kUnavailable, "{}", status.problem));
  result["shape"] = shape;
  result["device"] = status.devices[0];
  Must<void>([]() -> Status {
    const std::string error = cuda::OpenDevice(0);
    if (!error.empty()) return Fail(Code::kUnavailable, "{}", error);
    return {};
  }());
  const Limits limits{.bytes_per_s = ReadBandwidth(),
                      .flop_per_s = ProductRate(),
                      .weight_bytes = options.weights == CudaWeights::kFp8 ? 1 + 4.0 / 128 : 2,
                      .key_bytes = options.kv == CudaKv::kFp8 ? 1 + 1.0 / config.head_dim : 2};
  result["read_tb_s"] = limits.bytes_per_s / 1e12;
  result["product_tflop_s"] = limits.flop_per_s / 1e12;

  const double products = LayerProductSeconds(config, 2048);

  const auto opened = Clock::now();
  const auto device = Must(MakeRandomCudaBackend(config, options));
  result["open_s"] = Seconds(opened);
  RandomTokens random(config.vocab_size);
  const uint32_t page_tokens = device->info().page_tokens;
  constexpr uint32_t kContext = 1024;
  const uint32_t steps = quick ? 32 : 128;

  BareLoop loop(*device);
  const uint32_t batches[] = {1, 8, 64, 256};
  for (const uint32_t count : batches) {
    const uint32_t pages_each = (kContext + 3 * steps) / page_tokens + 2;
    if (!wanted(fmt::format("decode_{}", count))) continue;
    if (uint64_t{count} * pages_each > device->info().total_pages) continue;
    std::vector<Sequence> sequences(count);
    uint32_t next_page = 0;
    // The context's content does not matter for the speed: pages need not be filled.
    for (Sequence& sequence : sequences) {
      sequence.tokens = kContext - steps / 2;
      sequence.next = random.Take(1)[0];
    }
    Reserve(sequences, kContext + 3 * steps, page_tokens, next_page);
    Chained(loop, sequences, 8);
    for (Sequence& sequence : sequences) sequence.tokens = kContext - steps / 2;
    const double chained = ChainedAndProfiled(loop, sequences, steps);
    for (Sequence& sequence : sequences) sequence.tokens = kContext - steps / 2;
    const auto begin = Clock::now();
    for (uint32_t i = 0; i < steps; ++i) loop.Step(sequences);
    const double stepped = Seconds(begin) / steps;
    const double roof = RoofOf(config, limits, count, kContext);
    result[fmt::format("decode_{}_tokens_per_s", count)] = count / chained;
    result[fmt::format("decode_{}_ms", count)] = chained * 1e3;
    result[fmt::format("decode_{}_stepped_ms", count)] = stepped * 1e3;
    result[fmt::format("decode_{}_roof_share", count)] = roof / chained;
    fmt::print(stderr, "decode {}: {:.3f} ms, {:.3f} of the roof\n", count, chained * 1e3,
               roof / chained);
  }
  if (wanted("prefix_64")) {  // 64 sequences behind one prefix
    constexpr uint32_t kPrefix = 16'384;
    constexpr uint32_t kOwn = 64;
    std::vector<Sequence> sequences(64);
    uint32_t next_page = 0;
    std::vector<PageId> prefix;
    while (prefix.size() * page_tokens < kPrefix) prefix.push_back(PageId{next_page++});
    for (Sequence& sequence : sequences) {
      sequence.pages = prefix;
      sequence.tokens = kPrefix + kOwn;
      sequence.next = random.Take(1)[0];
    }
    Reserve(sequences, kPrefix + kOwn + 2 * steps, page_tokens, next_page);
    Chained(loop, sequences, 8);
    for (Sequence& sequence : sequences) sequence.tokens = kPrefix + kOwn;
    const double seconds = ChainedAndProfiled(loop, sequences, steps);
    const double roof = RoofOf(config, limits, 64, kOwn + steps / 2.0, kPrefix);
    result["prefix_64_ms"] = seconds * 1e3;
    result["prefix_64_roof_share"] = roof / seconds;
    fmt::print(stderr, "64 behind a prefix: {:.3f} ms, {:.3f} of the roof\n", seconds * 1e3,
               roof / seconds);
  }
  if (wanted("prefill_2048")) {
    constexpr uint32_t kTokens = 2048;
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      loop.Reset();
      Sequence sequence;
      const auto tokens = random.Take(kTokens);
      const Profiled profiled;
      const auto begin = Clock::now();
      loop.Feed(sequence, tokens);
      best = std::min(best, Seconds(begin));
    }
    result["prefill_2048_ms"] = best * 1e3;
    result["prefill_2048_tokens_per_s"] = kTokens / best;
    result["prefill_2048_share_of_products"] = products / best;
    fmt::print(stderr, "prefill: {:.3f} ms, {:.3f} of cuBLASLt's products\n", best * 1e3,
               products / best);
  }
  fmt::print("{}\n", result.dump(2));
  return 0;
}

// Bytes of a model's weights, in its files.
uint64_t BytesOf(const std::string& path) {
  namespace fs = std::filesystem;
  if (fs::is_regular_file(path)) return fs::file_size(path);
  uint64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() == ".safetensors") bytes += entry.file_size();
  }
  return bytes;
}

int MeasureOpening(const std::string& path, CudaOptions options) {
  options.graphs = false;
  options.total_pages = 64;
  std::vector<double> seconds;
  for (int i = 0; i < 4; ++i) {
    const auto opened = Clock::now();
    Must(MakeCudaBackend(path, options));
    seconds.push_back(Seconds(opened));
  }
  const double best = std::ranges::min(seconds);
  const nlohmann::ordered_json result = {
      {"first_open_s", seconds[0]},
      {"open_s", best},
      {"open_gb", static_cast<double>(BytesOf(path)) / 1e9},
      {"open_gb_s", static_cast<double>(BytesOf(path)) / 1e9 / best}};
  fmt::print("{}\n", result.dump(2));
  return 0;
}

}  // namespace
}  // namespace pie

namespace {
bool IsType(std::string_view value) {
  return value == "bf16" || value == "fp8";
}
}  // namespace

int main(int argc, char** argv) {
  std::string shape = "8b";
  std::string model;
  std::string only;
  bool quick = false;
  pie::CudaOptions options{.max_batch_tokens = 2048};
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--shape" && *value != 0) {
      shape = value;
      ++i;
    } else if (flag == "--open" && *value != 0) {
      model = value;
      ++i;
    } else if (flag == "--only" && std::ranges::find(pie::kParts, value) != std::end(pie::kParts)) {
      only = value;
      ++i;
    } else if (flag == "--quick") {
      quick = true;
    } else if (flag == "--deterministic") {
      options.deterministic = true;
    } else if (flag == "--weights" && IsType(value)) {
      options.weights =
          std::strcmp(value, "fp8") == 0 ? pie::CudaWeights::kFp8 : pie::CudaWeights::kBf16;
      ++i;
    } else if (flag == "--kv" && IsType(value)) {
      options.kv = std::strcmp(value, "fp8") == 0 ? pie::CudaKv::kFp8 : pie::CudaKv::kBf16;
      ++i;
    } else if (flag == "--without" && *value != 0) {
      options.skip_products = std::strcmp(value, "products") == 0;
      options.skip_attention = std::strcmp(value, "attention") == 0;
      ++i;
    } else {
      fmt::print(stderr,
                 "usage: pie-gpu-bench [--shape 8b|1b|0.6b|30b-a3b] [--quick] [--deterministic] "
                 "[--weights bf16|fp8] [--kv bf16|fp8] [--without products|attention] "
                 "[--only PART] [--open MODEL]\n");
      return 2;
    }
  }
  if (!model.empty()) return pie::MeasureOpening(model, options);
  return pie::Run(shape, quick, only, options);
}
