// pie:core/adapter, pie:plus/adapters and pie:zo/zo: LoRA adapters, and tuning them by scores.
#include <algorithm>
#include <variant>

#include "host/api.h"
#include "host/await.h"
#include "host/execute.h"
#include "host/guest_files.h"
#include "model/limits.h"

namespace pie::host {
namespace {

using Ptr = Adapters::Ptr;

Result<Ptr> AdapterOf(Process& process, uint32_t handle) {
  return PIE_TRY(process.handles().adapters.Get(handle))->adapter();
}

Result<uint32_t> Keep(Process& process, Ptr adapter) {
  Engine& engine = process.engine();
  return process.handles().adapters.Emplace(std::move(adapter), engine.adapters(),
                                            engine.file_work());
}

template <class T, class Work>
Result<std::optional<T>> OnFiles(Process& process, Wait& wait, Work work) {
  return AwaitFiles<T>(process, wait, "calls for adapters", std::move(work));
}
// Runs work that returns a Status in the same way.
template <class Work>
Status DoOnFiles(Process& process, Wait& wait, Work work) {
  const auto done = OnFiles<std::monostate>(
      process, wait, [work = std::move(work)]() mutable -> Result<std::monostate> {
        PIE_RETURN_IF_ERROR(work());
        return std::monostate();
      });
  return done ? Status() : std::unexpected(done.error());
}

GuestFiles FilesOf(Process& process) {
  const Limits& limits = process.engine().limits();
  return GuestFiles({process.scratch_dir(), limits.max_scratch_bytes},
                    {process.data_dir(), limits.max_data_bytes});
}

}  // namespace

Result<uint32_t> AdapterCreate(Process& process, uint32_t model, std::string_view name,
                               Wait& wait) {
  PIE_RETURN_IF_ERROR(CheckName(name));
  const uint32_t index = PIE_TRY(ModelIndex(process, model));
  auto made = PIE_TRY(OnFiles<Ptr>(
      process, wait,
      [&adapters = process.engine().adapters(), user = process.options().username, index,
       name = std::string(name)] { return adapters.Create(user, index, name); }));
  return made ? Keep(process, *std::move(made)) : 0;
}

Result<std::optional<uint32_t>> AdapterOpen(Process& process, uint32_t model, std::string_view name,
                                            Wait& wait) {
  PIE_RETURN_IF_ERROR(CheckName(name));
  const uint32_t index = PIE_TRY(ModelIndex(process, model));
  auto opened = PIE_TRY(
      OnFiles<Ptr>(process, wait,
                   [&adapters = process.engine().adapters(), user = process.options().username,
                    index, name = std::string(name)] { return adapters.Open(user, index, name); }));
  if (!opened || !*opened) return std::nullopt;
  return PIE_TRY(Keep(process, *std::move(opened)));
}

Status AdapterDestroy(Process& process, uint32_t adapter, Wait& wait) {
  Ptr destroyed = PIE_TRY(AdapterOf(process, adapter));
  return DoOnFiles(process, wait,
                   [&adapters = process.engine().adapters(), destroyed = std::move(destroyed)] {
                     return adapters.Destroy(destroyed);
                   });
}

Result<uint32_t> AdapterFork(Process& process, uint32_t adapter, std::string_view name,
                             Wait& wait) {
  PIE_RETURN_IF_ERROR(CheckName(name));
  Ptr original = PIE_TRY(AdapterOf(process, adapter));
  auto forked =
      PIE_TRY(OnFiles<Ptr>(process, wait,
                           [&adapters = process.engine().adapters(), original = std::move(original),
                            name = std::string(name)] { return adapters.Fork(original, name); }));
  return forked ? Keep(process, *std::move(forked)) : 0;
}

Status AdapterLoad(Process& process, uint32_t adapter, std::string_view path, Wait& wait) {
  PIE_RETURN_IF_ERROR(CheckName(path));
  Ptr loaded = PIE_TRY(AdapterOf(process, adapter));
  // The files may be larger than the memory that one inferlet may hold, so they are charged to the
  // user alone.
  return DoOnFiles(process, wait,
                   [&adapters = process.engine().adapters(), loaded = std::move(loaded),
                    files = FilesOf(process), path = std::string(path),
                    charge = ChargeTo(process.user(), &User::memory)]() mutable -> Status {
                     const std::string config =
                         PIE_TRY(files.Read(path, kPeftConfigFile, limits::kConfigBytes, charge));
                     const std::string tensors = PIE_TRY(
                         files.Read(path, kPeftTensorFile, limits::kAdapterFileBytes, charge));
                     return adapters.Load(loaded, config, std::as_bytes(std::span(tensors)));
                   });
}

Status AdapterSave(Process& process, uint32_t adapter, std::string_view path, Wait& wait) {
  PIE_RETURN_IF_ERROR(CheckName(path));
  Ptr saved = PIE_TRY(AdapterOf(process, adapter));
  return DoOnFiles(process, wait,
                   [&adapters = process.engine().adapters(), saved = std::move(saved),
                    files = FilesOf(process), path = std::string(path),
                    charge = ChargeTo(process.user(), &User::memory)]() mutable -> Status {
                     const PeftFiles written = PIE_TRY(adapters.Save(*saved, charge));
                     return files.Write(path, {{kPeftConfigFile, written.config},
                                               {kPeftTensorFile, written.tensors}});
                   });
}

Result<AdaptersFiles> AdaptersExportFiles(Process& process, uint32_t adapter, Wait& wait) {
  Ptr exported = PIE_TRY(AdapterOf(process, adapter));
  // The files wait in memory until the guest takes them.
  struct Charged {
    PeftFiles files;
    Charge charge;
  };
  auto made = PIE_TRY(
      OnFiles<Charged>(process, wait,
                       [&adapters = process.engine().adapters(), exported = std::move(exported),
                        charge = process.NewCharge()]() mutable -> Result<Charged> {
                         PeftFiles files = PIE_TRY(adapters.Save(*exported, charge));
                         return Charged{.files = std::move(files), .charge = std::move(charge)};
                       }));
  if (!made) return AdaptersFiles{};
  return AdaptersFiles{.config = std::move(made->files.config),
                       .tensors = std::move(made->files.tensors)};
}

Status AdaptersImportFiles(Process& process, uint32_t adapter, std::string_view config,
                           std::string_view tensors, Wait& wait) {
  Ptr loaded = PIE_TRY(AdapterOf(process, adapter));
  if (tensors.size() > limits::kAdapterFileBytes) {
    return Fail(Code::kExhausted, "{} has {} bytes; at most {} are supported", kPeftTensorFile,
                tensors.size(), limits::kAdapterFileBytes);
  }
  if (config.size() > limits::kConfigBytes) {
    return Fail(Code::kExhausted, "{} has {} bytes; at most {} are supported", kPeftConfigFile,
                config.size(), limits::kConfigBytes);
  }
  // The bridge calls this function again when the work has ended, but the copies are made only at
  // the first call.
  Charge charge = process.NewCharge();
  if (wait.has_ticket) config = tensors = {};
  if (!charge.Grow(config.size() + tensors.size())) return PassMemoryLimit(process);
  return DoOnFiles(
      process, wait,
      [&adapters = process.engine().adapters(), loaded = std::move(loaded),
       config = std::string(config), tensors = std::string(tensors), charge = std::move(charge)] {
        return adapters.Load(loaded, config, std::as_bytes(std::span(tensors)));
      });
}

Result<std::optional<uint32_t>> AdaptersOpen(Process& process, uint32_t model,
                                             std::string_view name, Wait& wait) {
  return AdapterOpen(process, model, name, wait);
}

Result<uint32_t> AdaptersFork(Process& process, uint32_t adapter, std::string_view name,
                              Wait& wait) {
  return AdapterFork(process, adapter, name, wait);
}

Status AdaptersDestroy(Process& process, uint32_t adapter, Wait& wait) {
  return AdapterDestroy(process, adapter, wait);
}

Result<std::vector<std::string>> AdaptersNames(Process& process, uint32_t model, Wait& wait) {
  const uint32_t index = PIE_TRY(ModelIndex(process, model));
  using Names = std::vector<std::string>;
  auto names = PIE_TRY(
      OnFiles<Names>(process, wait,
                     [&adapters = process.engine().adapters(), user = process.options().username,
                      index]() -> Result<Names> { return adapters.NamesOf(user, index); }));
  return names ? *std::move(names) : Names();
}

Status AdapterDrop(Process& process, uint32_t adapter) {
  process.handles().adapters.Remove(adapter);
  return {};
}

Status ForwardPassAdapter(Process& process, uint32_t pass, uint32_t adapter) {
  Pass* const open = PIE_TRY(OpenPass(process, pass));
  Ptr chosen = PIE_TRY(AdapterOf(process, adapter));
  if (chosen->model() != open->model) {
    open->Refuse({Code::kInvalid, "the adapter belongs to another model than the pass"});
  }
  open->adapter = std::move(chosen);
  return {};
}

Status ZoAdapterSeed(Process& process, uint32_t pass, int64_t seed) {
  PIE_TRY(OpenPass(process, pass))->zo_seed = seed;
  return {};
}

Status ZoInitialize(Process& process, uint32_t adapter, uint32_t rank, float alpha,
                    uint32_t population_size, float mu_fraction, float initial_sigma, Wait& wait) {
  Ptr tuned = PIE_TRY(AdapterOf(process, adapter));
  return DoOnFiles(process, wait,
                   [=, &adapters = process.engine().adapters(), tuned = std::move(tuned)]() {
                     const auto zo = StartZo(population_size, mu_fraction, initial_sigma);
                     if (!zo) return Status(std::unexpected(zo.error()));
                     return adapters.Initialize(tuned, rank, alpha, *zo);
                   });
}

Status ZoUpdate(Process& process, uint32_t adapter, std::span<const float> scores,
                std::span<const int64_t> seeds, float max_sigma, Wait& wait) {
  if (std::max(scores.size(), seeds.size()) > limits::kZoPopulation) {
    return Fail(Code::kExhausted,
                "there are {} scores and {} seeds, but a population has at most {} candidates",
                scores.size(), seeds.size(), limits::kZoPopulation);
  }
  Ptr tuned = PIE_TRY(AdapterOf(process, adapter));
  // As in AdaptersImportFiles.
  Charge charge = process.NewCharge();
  if (wait.has_ticket) {
    scores = {};
    seeds = {};
  }
  if (!charge.Grow(scores.size_bytes() + seeds.size_bytes())) return PassMemoryLimit(process);
  // An update of a large adapter for many seeds takes hours. It ends with its guest.
  const auto done = OnFiles<std::monostate>(
      process, wait,
      [&adapters = process.engine().adapters(), tuned = std::move(tuned),
       scores = std::vector(scores.begin(), scores.end()),
       seeds = std::vector(seeds.begin(), seeds.end()), charge = std::move(charge),
       max_sigma](const Promise<std::monostate>& promise) -> Result<std::monostate> {
        PIE_RETURN_IF_ERROR(adapters.Update(tuned, scores, seeds, max_sigma,
                                            [&promise] { return promise.abandoned(); }));
        return std::monostate();
      });
  return done ? Status() : std::unexpected(done.error());
}

}  // namespace pie::host
