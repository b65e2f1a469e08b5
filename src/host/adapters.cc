#include "host/adapters.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "base/one_line.h"
#include "host/hash.h"
#include "model/safetensors.h"

namespace pie::host {
namespace {

// Two adapters with the same digest change a model in the same way.
std::string DigestOf(const AdapterWeights& weights) {
  std::string all;
  const auto add = [&all](const auto& number) {
    all.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  const auto add_matrix = [&all](const std::vector<float>& matrix) {
    const auto hash =
        Blake3({reinterpret_cast<const char*>(matrix.data()), matrix.size() * sizeof(float)});
    all.append(reinterpret_cast<const char*>(hash.data()), hash.size());
  };
  for (uint32_t layer = 0; layer < weights.layers.size(); ++layer) {
    for (uint32_t slot = 0; slot < weights.layers[layer].size(); ++slot) {
      const LowRank& part = weights.layers[layer][slot];
      if (part.rank == 0) continue;
      add(layer);
      add(slot);
      add(part.rank);
      add(part.scale);
      add_matrix(part.a);
      add_matrix(part.b);
    }
  }
  return Blake3Hex(all);
}

// The device's form of a version, and the charge for its memory.
struct ChargedDevice {
  DeviceAdapterPtr device;
  Charge charge;
};

// Guests choose the name, and may cause this as often as they like, so a second has one line.
void Complain(std::string_view name, std::string_view what, const Error& error) {
  static std::atomic<int64_t> last = -1;
  const int64_t second = std::chrono::duration_cast<std::chrono::seconds>(
                             std::chrono::steady_clock::now().time_since_epoch())
                             .count();
  if (last.exchange(second) == second) return;
  fmt::print(stderr, "pie: adapter '{}' {}: {}\n", OneLine(name), what, OneLine(error.text));
}

}  // namespace

Result<std::shared_ptr<const AdapterVersion>> NamedAdapter::current() const {
  const std::lock_guard lock(mutex_);
  if (destroyed_) return Fail(Code::kNotFound, "adapter '{}' was destroyed", name_);
  return version_;
}

Adapters::Adapters(const Limits& limits, const std::string& folder, std::vector<ModelRef> models)
    : limits_(limits),
      store_(folder.empty() ? std::nullopt : std::optional<AdapterStore>({folder, limits})),
      models_(std::move(models)),
      memory_(std::make_shared<ByteBudget>(limits.max_adapter_memory)),
      memory_of_user_([this](std::string_view) {
        return std::make_shared<ByteBudget>(memory_->limit() / 2, memory_, ByteBudget::Part{});
      }),
      opening_([](std::string_view) { return std::make_shared<std::mutex>(); }) {}

Adapters::~Adapters() {
  for (const auto& [key, adapter] : loaded_) {
    if (const Status written = Write(*adapter); !written) {
      Complain(adapter->name(), "was not saved", written.error());
    }
  }
}

Status Adapters::CheckModel(uint32_t model) const {
  if (ShapeOf(model).layers > 0) return {};
  return Fail(Code::kUnavailable, "the device of model '{}' applies no adapters",
              models_[model].name);
}

Result<std::shared_ptr<const AdapterVersion>> Adapters::MakeVersion(std::string_view user,
                                                                    uint32_t model,
                                                                    AdapterWeights weights,
                                                                    ZoState zo, Charge room) {
  auto version = std::make_shared<AdapterVersion>();
  version->number = next_version_.fetch_add(1, std::memory_order_relaxed);
  version->zo = std::move(zo);
  if (!weights.empty()) {
    const size_t parameters = weights.parameters();
    PIE_RETURN_IF_ERROR(Resize(user, room, parameters * sizeof(float)));
    version->charge = std::move(room);
    Charge charge = PIE_TRY(TakeRoom(user, parameters * sizeof(uint16_t)));
    DeviceAdapterPtr device = PIE_TRY(models_[model].scheduler->LoadAdapter(weights));
    if (device->bytes() > charge.bytes()) {
      charge.Absorb(PIE_TRY(TakeRoom(user, device->bytes() - charge.bytes())));
    }
    const auto held = std::make_shared<ChargedDevice>(std::move(device), std::move(charge));
    version->device = DeviceAdapterPtr(held, held->device.get());
    version->digest = DigestOf(weights);
    const std::lock_guard lock(mutex_);
    std::erase_if(made_, [](const auto& made) { return made.second.device.expired(); });
    made_[version->number] = {.origin = {.name = {}, .digest = version->digest},
                              .device = version->device};
  }
  version->weights = std::make_shared<const AdapterWeights>(std::move(weights));
  return version;
}

void Adapters::NoteName(const AdapterVersion& version, const std::string& name) {
  const auto made = made_.find(version.number);
  if (made != made_.end() && made->second.origin.name.empty()) made->second.origin.name = name;
}

Result<Adapters::Origin> Adapters::OriginOf(std::string_view user, uint32_t model,
                                            uint64_t version) const {
  const std::lock_guard lock(mutex_);
  const auto made = made_.find(version);
  const std::string name = made == made_.end() ? "" : made->second.origin.name;
  if (!name.empty()) {
    const std::string& digest = made->second.origin.digest;
    const auto has_it = [&digest](const NamedAdapter& adapter) {
      const auto current = adapter.current();
      return current && (*current)->digest == digest;
    };
    const auto noted = loaded_.find(Key(user, model, name));
    if (noted != loaded_.end() && has_it(*noted->second)) return Origin{name, digest};
    // The file of an evicted adapter holds its newest version.
    if (noted == loaded_.end() && store_ &&
        store_->Exists({.user = user, .model = models_[model].name, .name = name})) {
      return Origin{name, digest};
    }
    for (const auto& [key, adapter] : loaded_) {
      if (std::get<0>(key) != user || std::get<1>(key) != model) continue;
      if (has_it(*adapter)) return Origin{adapter->name(), digest};
    }
  }
  return Fail(Code::kInvalid,
              "the context has tokens that were computed with weights of adapter '{}' that it does "
              "not have any more; save a context before its adapter is changed or destroyed, or "
              "fork the adapter",
              name);
}

Result<std::shared_ptr<const AdapterVersion>> Adapters::VersionOf(std::string_view user,
                                                                  uint32_t model,
                                                                  const Origin& origin) {
  const Ptr adapter = PIE_TRY(Open(user, model, origin.name));
  if (!adapter) {
    return Fail(Code::kNotFound,
                "it has tokens that were computed with adapter '{}', which does not exist (any "
                "more)",
                origin.name);
  }
  auto version = PIE_TRY(adapter->current());
  if (version->digest != origin.digest || !version->device) {
    return Fail(Code::kInvalid,
                "it has tokens that were computed with other weights of adapter '{}' than it has "
                "now; load those weights again, or delete the snapshot",
                origin.name);
  }
  return version;
}

Result<Charge> Adapters::TakeRoom(std::string_view user, size_t bytes) {
  Charge charge(memory_of_user_.Of(user));
  PIE_RETURN_IF_ERROR(Resize(user, charge, bytes));
  return charge;
}

Status Adapters::Resize(std::string_view user, Charge& charge, size_t to) {
  const auto own = memory_of_user_.Of(user);
  while (!charge.Resize(to)) {
    const size_t bytes = to - charge.bytes();
    const bool user_has_too_much = own->used() + bytes > own->limit();
    Ptr victim;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [key, adapter] : loaded_) {
        if (user_has_too_much && std::get<0>(key) != user) continue;
        // If only the table holds the adapter, no other thread can reach it without this lock.
        if (!store_ || adapter.use_count() > 1) continue;
        if (!victim || adapter->last_use_ < victim->last_use_) victim = adapter;
      }
    }
    if (!victim && user_has_too_much) {
      return Fail(
          Code::kExhausted,
          "user {}'s adapters would take {} MiB of memory; at most {} MiB are allowed: drop or "
          "destroy some",
          user, ((own->used() + bytes) >> 20) + 1, own->limit() >> 20);
    }
    if (!victim) {
      return Fail(
          Code::kExhausted,
          "adapters would take {} MiB of memory; at most {} MiB are allowed: try again later",
          ((memory_->used() + bytes) >> 20) + 1, memory_->limit() >> 20);
    }
    PIE_RETURN_IF_ERROR(Write(*victim));
    const std::lock_guard lock(mutex_);
    if (victim.use_count() > 2) continue;  // another thread has opened it meanwhile
    loaded_.erase(Key(victim->user_, victim->model_, victim->name_));
    ++evictions_;
  }
  return {};
}

Status Adapters::Write(NamedAdapter& adapter) const {
  const std::lock_guard writing(adapter.writing_);
  std::shared_ptr<const AdapterVersion> version;
  {
    const std::lock_guard lock(adapter.mutex_);
    if (!adapter.unwritten_ || adapter.destroyed_ || !store_) return {};
    adapter.unwritten_ = false;
    version = adapter.version_;
  }
  const Status written =
      store_->Write(FileKey(adapter), {*version->weights, version->zo}, ShapeOf(adapter.model_));
  if (!written) {
    const std::lock_guard lock(adapter.mutex_);
    adapter.unwritten_ = true;
  }
  return written;
}

Status Adapters::Install(const Ptr& adapter, std::shared_ptr<const AdapterVersion> version,
                         bool write) {
  std::shared_ptr<const AdapterVersion> before;
  {
    const std::lock_guard lock(mutex_);
    NoteName(*version, adapter->name_);
  }
  {
    const std::lock_guard lock(adapter->mutex_);
    if (adapter->destroyed_) {
      return Fail(Code::kNotFound, "adapter '{}' was destroyed", adapter->name_);
    }
    before = std::exchange(adapter->version_, std::move(version));
    adapter->unwritten_ = true;
  }
  if (!write) return {};
  const Status written = Write(*adapter);
  if (!written && before) {
    const std::lock_guard lock(adapter->mutex_);
    adapter->version_ = std::move(before);
    adapter->unwritten_ = false;
  }
  return written;
}

Result<Adapters::Ptr> Adapters::Add(std::string_view user, uint32_t model, std::string_view name,
                                    std::shared_ptr<const AdapterVersion> version) {
  PIE_RETURN_IF_ERROR(CheckAdapterName(name));
  const auto one_at_a_time = opening_.Of(user);
  const std::lock_guard opening(*one_at_a_time);
  const auto adapter = std::make_shared<NamedAdapter>(std::string(user), model, std::string(name));
  const Key key(user, model, name);
  {
    const std::lock_guard lock(mutex_);
    const bool taken = loaded_.contains(key) || (store_ && store_->Exists(FileKey(*adapter)));
    if (taken) {
      return Fail(Code::kInvalid,
                  "there is an adapter named '{}' already; open it, destroy it, or choose another "
                  "name",
                  name);
    }
    const auto own = std::ranges::count_if(
        loaded_, [&](const auto& entry) { return std::get<0>(entry.first) == user; });
    if (!store_ && static_cast<size_t>(own) >= limits_.max_adapters) {
      return Fail(Code::kExhausted, "user {} has {} adapters already; destroy some", user, own);
    }
  }
  PIE_RETURN_IF_ERROR(Install(adapter, std::move(version), true));
  const std::lock_guard lock(mutex_);
  adapter->last_use_ = ++uses_;
  loaded_[key] = adapter;
  return adapter;
}

Result<Adapters::Ptr> Adapters::Create(std::string_view user, uint32_t model,
                                       std::string_view name) {
  PIE_RETURN_IF_ERROR(CheckModel(model));
  return Add(user, model, name, PIE_TRY(MakeVersion(user, model, {}, {}, {})));
}

Result<Adapters::Ptr> Adapters::Open(std::string_view user, uint32_t model, std::string_view name) {
  const auto one_at_a_time = opening_.Of(user);
  const std::lock_guard opening(*one_at_a_time);
  const Key key(user, model, name);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = loaded_.find(key); found != loaded_.end()) {
      found->second->last_use_ = ++uses_;
      return found->second;
    }
  }
  if (!store_ || ShapeOf(model).layers == 0) return nullptr;
  const auto adapter = std::make_shared<NamedAdapter>(std::string(user), model, std::string(name));
  Charge room;
  auto content = store_->Read(FileKey(*adapter), ShapeOf(model), [&](uint64_t bytes) -> Status {
    room = PIE_TRY(TakeRoom(user, bytes));
    return {};
  });
  if (!content && content.error().code == Code::kNotFound) return nullptr;
  if (!content) return std::unexpected(std::move(content.error()));
  adapter->version_ = PIE_TRY(MakeVersion(user, model, std::move(content->weights),
                                          std::move(content->zo), std::move(room)));
  ++loads_;
  const std::lock_guard lock(mutex_);
  NoteName(*adapter->version_, adapter->name_);
  adapter->last_use_ = ++uses_;
  loaded_[key] = adapter;
  return adapter;
}

Result<Adapters::Ptr> Adapters::Fork(const Ptr& adapter, std::string_view name) {
  const auto version = PIE_TRY(adapter->current());
  // The weights are immutable, so the two share them until one is changed.
  return Add(adapter->user_, adapter->model_, name, version);
}

Status Adapters::Destroy(const Ptr& adapter) {
  const auto one_at_a_time = opening_.Of(adapter->user_);
  const std::lock_guard opening(*one_at_a_time);
  {
    const std::lock_guard lock(adapter->mutex_);
    if (adapter->destroyed_) return {};
    adapter->destroyed_ = true;
    adapter->version_.reset();
  }
  {
    const std::lock_guard lock(mutex_);
    loaded_.erase(Key(adapter->user_, adapter->model_, adapter->name_));
  }
  if (!store_) return {};
  const std::lock_guard writing(adapter->writing_);
  const Status deleted = store_->Delete(FileKey(*adapter));
  return deleted || deleted.error().code == Code::kNotFound ? Status() : deleted;
}

Status Adapters::Load(const Ptr& adapter, std::string_view config,
                      std::span<const std::byte> tensors) {
  const std::lock_guard work(adapter->work_);
  PIE_RETURN_IF_ERROR(adapter->current());
  // Damaged tensors are reported below, after a wrong configuration.
  const auto file = Safetensors::Parse(tensors, std::string(kPeftTensorFile));
  Charge room = PIE_TRY(TakeRoomFor(adapter->user_, file ? PeftParameters(*file) : 0));
  AdapterWeights weights = PIE_TRY(ReadPeft(config, tensors, ShapeOf(adapter->model_)));
  return Install(adapter,
                 PIE_TRY(MakeVersion(adapter->user_, adapter->model_, std::move(weights), {},
                                     std::move(room))),
                 true);
}

Result<PeftFiles> Adapters::Save(const NamedAdapter& adapter, Charge& charge) const {
  const auto version = PIE_TRY(adapter.current());
  const size_t before = charge.bytes();
  const auto fits = [&](size_t bytes) -> Status {
    if (charge.Resize(before + bytes)) return {};
    return Fail(Code::kExhausted,
                "memory limit: the files of adapter '{}' would take {} KiB of the engine's memory, "
                "and the inferlets of this user have not that much left",
                adapter.name(), bytes >> 10);
  };
  PIE_RETURN_IF_ERROR(fits(version->weights->parameters() * sizeof(float)));
  PeftFiles files = PIE_TRY(WritePeft(*version->weights, ShapeOf(adapter.model_)));
  PIE_RETURN_IF_ERROR(fits(files.config.size() + files.tensors.size()));
  return files;
}

Status Adapters::Initialize(const Ptr& adapter, uint32_t rank, float alpha, const ZoState& zo) {
  const std::lock_guard work(adapter->work_);
  const auto before = PIE_TRY(adapter->current());
  const AdapterShape& shape = ShapeOf(adapter->model_);
  const uint64_t parameters = before->weights->empty() ? PIE_TRY(ParametersOfNew(shape, rank))
                                                       : before->weights->parameters();
  Charge room = PIE_TRY(TakeRoomFor(adapter->user_, parameters));
  AdapterWeights weights = *before->weights;
  if (weights.empty()) {
    weights = PIE_TRY(MakeAdapter(shape, rank, alpha));
  } else {
    for (const AdapterWeights::Layer& layer : weights.layers) {
      for (const LowRank& part : layer) {
        if (part.rank == 0 || (part.rank == rank && part.alpha == alpha)) continue;
        return Fail(Code::kInvalid,
                    "the adapter has weights of rank {} and alpha {}; initialize with these, or "
                    "create another adapter",
                    part.rank, part.alpha);
      }
    }
  }
  return Install(adapter,
                 PIE_TRY(MakeVersion(adapter->user_, adapter->model_, std::move(weights), zo,
                                     std::move(room))),
                 true);
}

Status Adapters::Update(const Ptr& adapter, std::span<const float> scores,
                        std::span<const int64_t> seeds, float max_sigma,
                        const std::function<bool()>& stopped) {
  const std::lock_guard work(adapter->work_);
  const auto before = PIE_TRY(adapter->current());
  Charge room = PIE_TRY(TakeRoomFor(adapter->user_, before->weights->parameters()));
  AdapterWeights weights = *before->weights;
  ZoState zo = before->zo;
  PIE_RETURN_IF_ERROR(UpdateZo(scores, seeds, max_sigma, zo, weights, stopped));
  auto version = PIE_TRY(MakeVersion(adapter->user_, adapter->model_, std::move(weights),
                                     std::move(zo), std::move(room)));
  PIE_RETURN_IF_ERROR(Install(adapter, std::move(version), false));
  ++updates_;
  return {};
}

void Adapters::Release(const Ptr& adapter, WorkQueue& work) {
  {
    const std::lock_guard lock(adapter->mutex_);
    if (!adapter->unwritten_ || adapter->destroyed_ || !store_) return;
  }
  // If the queue is full, the version is written when the adapter is evicted or the engine stops.
  work.Push(adapter->user_, [this, adapter] {
    if (const Status written = Write(*adapter); !written) {
      Complain(adapter->name(), "was not saved yet", written.error());
    }
  });
}

std::vector<Adapters::Listed> Adapters::List(std::string_view user, size_t most) const {
  std::map<std::pair<std::string, std::string>, Listed> listed;  // by model and name
  if (store_) {
    for (const AdapterStore::Entry& entry : store_->ListOf(user, most)) {
      if (!entry.problem.empty()) continue;
      listed[{entry.model, entry.name}] = {
          .name = entry.name, .model = entry.model, .bytes = entry.bytes};
    }
  }
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, adapter] : loaded_) {
      if (std::get<0>(key) != user) continue;
      const auto version = adapter->current();
      if (!version) continue;
      const std::string& model = models_[adapter->model()].name;
      Listed& entry = listed[{model, adapter->name()}];
      if (entry.bytes == 0) entry.bytes = (*version)->bytes();
      entry.name = adapter->name();
      entry.model = model;
      entry.resident = true;
    }
  }
  std::vector<Listed> all;
  for (auto& [key, entry] : listed) {
    if (all.size() < most) all.push_back(std::move(entry));
  }
  return all;
}

std::vector<std::string> Adapters::NamesOf(std::string_view user, uint32_t model) const {
  std::vector<std::string> names;
  for (Listed& listed : List(user, limits_.max_adapters)) {
    if (listed.model == models_[model].name) names.push_back(std::move(listed.name));
  }
  return names;
}

AdapterStats Adapters::stats() const {
  AdapterStats stats{.loads = loads_, .evictions = evictions_, .updates = updates_};
  const std::lock_guard lock(mutex_);
  stats.resident = loaded_.size();
  for (const auto& [key, adapter] : loaded_) {
    const auto version = adapter->current();
    stats.bytes += version ? (*version)->bytes() : 0;
  }
  return stats;
}

}  // namespace pie::host
