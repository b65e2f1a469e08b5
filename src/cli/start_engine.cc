#include "cli/start_engine.h"

#include <sys/resource.h>

#include <algorithm>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "backend/asynchronous.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/dummy/dummy_backend.h"
#include "backend/recording.h"
#include "cli/dummy_tokens.h"
#include "cli/memory_plan.h"
#include "cli/models.h"
#include "cli/terminal.h"
#include "speech/dummy_model.h"
#include "speech/open_model.h"

namespace pie::cli {
namespace {

// Sets `into` unless the configured number is 0.
void Set(uint32_t& into, uint32_t configured) {
  if (configured != 0) into = configured;
}

template <class Options>
void SetCommon(Options& options, const ModelEntry& entry) {
  Set(options.page_tokens, entry.page_tokens);
  Set(options.total_pages, entry.total_pages);
  Set(options.max_batch_tokens, entry.max_batch_tokens);
  Set(options.max_batch_members, entry.max_batch_members);
}

// Guests may open a part of the files that the system lets this process open. Connections,
// snapshots and programs need the rest.
size_t FilesOfGuests(size_t limit) {
  rlimit system{};
  if (getrlimit(RLIMIT_NOFILE, &system) != 0) return limit;
  return std::min<size_t>(limit, system.rlim_max / 8);
}

// Puts a scheduler in front of the device.
Result<host::LoadedModel> Scheduled(Model model, std::unique_ptr<Backend> backend,
                                    const ModelEntry& entry) {
  if (entry.recorder) {
    PIE_RETURN_IF_ERROR(entry.recorder->Use(model));
    backend = MakeRecording(
        std::move(backend),
        [recorder = entry.recorder](std::span<const uint32_t> context, uint32_t token) {
          recorder->Observe(context, token);
        });
  }
  return host::LoadedModel{std::move(model),
                           std::make_unique<Scheduler>(std::move(backend), entry.scheduler)};
}

Result<host::LoadedModel> Loaded(Model model, std::unique_ptr<Backend> backend,
                                 const ModelEntry& entry) {
  if (entry.asynchronous) backend = MakeAsynchronous(std::move(backend));
  return Scheduled(std::move(model), std::move(backend), entry);
}

Result<host::LoadedModel> LoadDummy(const ModelEntry& entry, uint64_t memory) {
  DummyOptions options;
  SetCommon(options, entry);
  options.seed = entry.seed;
  const bool borrows = !entry.vocabulary.empty();
  Model model = borrows ? PIE_TRY(OpenModel(PIE_TRY(FindModel(entry.vocabulary)), entry.name))
                        : MakeDummyModel(entry.name, options.vocab_size);
  if (borrows) options.tokens = DummyTokensOf(model);
  if (entry.script) {
    PIE_RETURN_IF_ERROR(entry.script->Use(model));
    options.script = [script = entry.script](std::span<const uint32_t> context) {
      return script->Next(context);
    };
  }
  const uint64_t bytes = DummyMemoryOf(options);
  try {
    if (bytes <= memory) {
      return Loaded(std::move(model), MakeDummyBackend(std::move(options)), entry);
    }
  } catch (const std::bad_alloc&) {  // another limit of the system
  }
  return Fail(Code::kExhausted,
              "there is not enough memory for {} KV pages of {} tokens; lower total_pages or "
              "kv_page_size",
              entry.total_pages == 0 ? DummyOptions().total_pages : entry.total_pages,
              entry.page_tokens == 0 ? DummyOptions().page_tokens : entry.page_tokens);
}

Result<CpuOptions> OptionsOfCpu(const ModelEntry& entry, uint64_t memory) {
  const std::string dtype = entry.kv_cache_dtype.empty() ? "f16" : entry.kv_cache_dtype;
  const std::optional<cpu::KvType> kv_type = cpu::ParseKvType(dtype);
  if (!kv_type) {
    return Fail(
        Code::kUnavailable,
        "model '{}' has kv_cache_dtype = \"{}\"; the CPU device supports \"f16\" and \"q8\"",
        entry.name, dtype);
  }
  CpuOptions options;
  SetCommon(options, entry);
  Set(options.max_positions, entry.max_positions);
  Set(options.threads, entry.threads);
  options.kv_type = *kv_type;
  options.memory_bytes = memory;
  return options;
}

Result<std::string> PathOf(const ModelEntry& entry) {
  return FindModel(entry.weights.empty() ? kDefaultModel : entry.weights);
}

Result<host::LoadedModel> LoadCpu(const ModelEntry& entry, uint64_t memory, uint64_t prefault_bytes,
                                  bool quiet) {
  CpuOptions options = PIE_TRY(OptionsOfCpu(entry, memory));
  const std::string path = PIE_TRY(PathOf(entry));
  options.prefault_bytes = prefault_bytes;
  ProgressBar bar("loading " + entry.name, !quiet);
  options.progress = [&bar](uint64_t done, uint64_t total) { bar.Show(done, total); };
  Model model = PIE_TRY(OpenModel(path, entry.name));
  std::unique_ptr<Backend> backend = PIE_TRY(MakeCpuBackend(path, options));
  return Loaded(std::move(model), std::move(backend), entry);
}

Result<CudaWeights> WeightsOf(const ModelEntry& entry) {
  const std::string& dtype = entry.weight_dtype;
  if (dtype.empty() || dtype == "auto") return CudaWeights::kAsStored;
  if (dtype == "bf16" || dtype == "bfloat16") return CudaWeights::kBf16;
  if (dtype == "fp8") return CudaWeights::kFp8;
  return Fail(
      Code::kUnavailable,
      "model '{}' has weight_dtype = \"{}\"; the cuda driver supports \"auto\", \"bf16\" and "
      "\"fp8\"",
      entry.name, dtype);
}

Result<host::LoadedModel> LoadCuda(const ModelEntry& entry, bool quiet) {
  const std::string& dtype = entry.kv_cache_dtype;
  const bool fp8 = dtype == "fp8" || dtype == "fp8_e4m3";
  if (!fp8 && !dtype.empty() && dtype != "bf16" && dtype != "bfloat16") {
    return Fail(
        Code::kUnavailable,
        "model '{}' has kv_cache_dtype = \"{}\"; the cuda driver supports \"bf16\" and \"fp8\"",
        entry.name, dtype);
  }
  const std::string path = PIE_TRY(PathOf(entry));
  CudaOptions options;
  SetCommon(options, entry);
  Set(options.max_positions, entry.max_positions);
  options.device = entry.device;
  options.memory_share = entry.gpu_memory_share;
  options.deterministic = entry.deterministic;
  options.weights = PIE_TRY(WeightsOf(entry));
  options.kv = fp8 ? CudaKv::kFp8 : CudaKv::kBf16;
  ProgressBar bar("loading " + entry.name, !quiet);
  options.progress = [&bar](uint64_t done, uint64_t total) { bar.Show(done, total); };
  Model model = PIE_TRY(OpenModel(path, entry.name));
  std::unique_ptr<Backend> backend = PIE_TRY(MakeCudaBackend(path, options));
  return Scheduled(std::move(model), std::move(backend), entry);
}

// A key that only the CPU device has chooses it, so that config files keep their meaning.
ModelEntry::Driver Choose(const ModelEntry& entry) {
  if (entry.driver != ModelEntry::Driver::kAuto) return entry.driver;
  const bool for_cpu = entry.threads != 0 || entry.asynchronous || entry.kv_cache_dtype == "f16" ||
                       entry.kv_cache_dtype == "q8";
  return !for_cpu && !FindCudaDevices().devices.empty() ? ModelEntry::Driver::kCuda
                                                        : ModelEntry::Driver::kCpu;
}

Result<host::LoadedModel> Load(const ModelEntry& entry, uint64_t memory, uint64_t prefault_bytes,
                               bool quiet) {
  switch (Choose(entry)) {
    case ModelEntry::Driver::kDummy:
      return LoadDummy(entry, memory);
    case ModelEntry::Driver::kCuda:
      return LoadCuda(entry, quiet);
    case ModelEntry::Driver::kCpu:
    case ModelEntry::Driver::kAuto:
      break;
  }
  return LoadCpu(entry, memory, prefault_bytes, quiet);
}

// The memory that a loaded model may take; pages that are swapped out are in memory, too.
uint64_t MemoryOfModel(const host::LoadedModel& loaded, const ModelEntry& entry) {
  const BackendInfo& info = loaded.scheduler->info();
  return info.memory_bytes + uint64_t{entry.scheduler.memory.swap_pages} * info.page_bytes;
}

// Plans the memory of the config's models, in order. `take(entry, left)` returns how much memory a
// model takes, where `left` is the memory that the models before it have left.
template <class Take>
Result<MemoryPlan> PlanModels(const Config& config, Take take) {
  const uint64_t total = MemoryOf(config);
  const uint64_t most = MemoryForModels(total);
  uint64_t models = 0;
  for (const ModelEntry& entry : config.models) {
    models += PIE_TRY(take(entry, most - std::min(models, most)));
  }
  return PlanMemory(total, models);
}

}  // namespace

Result<MemoryPlan> EstimateMemory(const Config& config) {
  return PlanModels(config, [](const ModelEntry& entry, uint64_t left) -> Result<uint64_t> {
    if (Choose(entry) != ModelEntry::Driver::kCpu) return 0;
    const CpuOptions options = PIE_TRY(OptionsOfCpu(entry, left));
    return CpuMemoryOf(PIE_TRY(PathOf(entry)), options);
  });
}

Result<std::unique_ptr<host::Engine>> StartEngine(const Config& config, bool quiet,
                                                  MemoryPlan* memory) {
  host::EngineOptions options;
  std::random_device random;
  const auto load = [&](ModelEntry entry, uint64_t left) -> Result<uint64_t> {
    entry.scheduler.prefix = {.share = config.prefix_cache,
                              .seed = uint64_t{random()} << 32 | random()};
    options.models.push_back(PIE_TRY(Load(entry, left, config.prefault_bytes, quiet)));
    options.models.back().draft = entry.draft;
    return MemoryOfModel(options.models.back(), entry);
  };
  const MemoryPlan plan = PIE_TRY(PlanModels(config, load));
  options.runtime = config.runtime;
  options.seed = config.models[0].seed;
  options.allow_fs = config.allow_fs;
  options.scratch_root = config.scratch_root;
  options.data_root = config.data_root;
  options.snapshot_root = config.snapshot_root;
  options.adapter_root = config.adapter_root;
  options.shared_prefixes = config.shared_prefixes;
  options.limits = config.limits;
  plan.Cap(config, options.limits);
  plan.Cap(config, options.runtime.compile_limits);
  options.limits.max_open_files = FilesOfGuests(options.limits.max_open_files);
  options.several_users = config.several_users;
  options.shared_topics = config.shared_topics;
  options.mcp = config.mcp;
  options.default_token_limit = config.models[0].token_limit;
  if (memory != nullptr) *memory = plan;
  return host::Engine::Start(std::move(options));
}

}  // namespace pie::cli
