#include "host/adapter_store.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/whole_file.h"
#include "host/hash.h"
#include "model/adapter/peft.h"
#include "model/limits.h"
#include "model/mapped_file.h"
#include "model/safetensors.h"

namespace pie::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kExtension = ".adapter";
constexpr size_t kNameDigits = 40;
constexpr size_t kMaxNameBytes = 256;

// The keys of a file's metadata.
constexpr const char* kUser = "pie.user";
constexpr const char* kModel = "pie.model";
constexpr const char* kName = "pie.name";
constexpr const char* kConfig = "pie.config";  // adapter_config.json; empty: no weights
constexpr const char* kZo = "pie.zo";

std::string ToJson(const ZoState& zo) {
  return json{{"population", zo.population},
              {"mu_fraction", zo.mu_fraction},
              {"initial_sigma", zo.initial_sigma},
              {"sigma", zo.sigma},
              {"success", zo.success},
              {"generations", zo.generations},
              {"scores", zo.scores}}
      .dump();
}

Result<ZoState> FromJson(const std::string& text) {
  if (text.empty()) return ZoState();
  try {
    const json read = json::parse(text);
    ZoState zo{.population = read.at("population"),
               .mu_fraction = read.at("mu_fraction"),
               .initial_sigma = read.at("initial_sigma"),
               .sigma = read.at("sigma"),
               .success = read.at("success"),
               .generations = read.at("generations"),
               .scores = read.at("scores")};
    if (zo.population > 0) {
      PIE_RETURN_IF_ERROR(StartZo(zo.population, zo.mu_fraction, zo.initial_sigma));
      if (!zo.scores.empty() && zo.scores.size() != zo.population) {
        return Fail(Code::kInvalid, "it has {} scores of {} candidates", zo.scores.size(),
                    zo.population);
      }
    }
    return zo;
  } catch (const json::exception&) {
    return Fail(Code::kInvalid, "the state of tuning in the file is damaged");
  }
}

// Files appear whole and never change, so they can be mapped: only what is needed is read.
Result<MappedFile> Map(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return Fail(Code::kNotFound, "the file does not exist");
  MappedFile file = PIE_TRY(MappedFile::Open(path));
  const size_t size = file.bytes().size();
  if (size > limits::kAdapterFileBytes + limits::kSafetensorsHeaderBytes) {
    return Fail(Code::kInvalid, "the file has {} bytes; at most {} are allowed", size,
                limits::kAdapterFileBytes + limits::kSafetensorsHeaderBytes);
  }
  return file;
}

Status CheckWhole(const MappedFile& file) {
  if (!file.lost()) return {};
  return Fail(Code::kInternal, "the file was truncated while it was read");
}

std::string Value(const Safetensors& file, const char* key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? "" : found->second;
}

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Replaces the metadata of a safetensors file, and leaves the tensors as they are. The key
// kPeftBlocks stays, because it is needed to read the tensors.
Result<std::string> WithMetadata(std::string_view tensors,
                                 std::map<std::string, std::string> metadata) {
  const Safetensors parsed =
      PIE_TRY(Safetensors::Parse(Bytes(tensors), std::string(kPeftTensorFile)));
  if (const std::string blocks = Value(parsed, kPeftBlocks); !blocks.empty()) {
    metadata[kPeftBlocks] = blocks;
  }
  uint64_t length = 0;
  std::memcpy(&length, tensors.data(), sizeof(length));
  json header = json::parse(tensors.substr(sizeof(length), length));
  header["__metadata__"] = metadata;
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::string_view data = tensors.substr(sizeof(length) + length);
  length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file + text + std::string(data);
}

AdapterStore::Entry Describe(const std::string& path) {
  AdapterStore::Entry entry{.path = path};
  const auto mapped = Map(path);
  const auto file = mapped ? Safetensors::Parse(mapped->bytes(), "the file")
                           : Result<Safetensors>(std::unexpected(mapped.error()));
  if (!file) {
    entry.problem = file.error().text;
    return entry;
  }
  const auto zo = FromJson(Value(*file, kZo));
  if (!zo) {
    entry.problem = zo.error().text;
    return entry;
  }
  const std::string config = Value(*file, kConfig);
  const Result<uint32_t> rank = config.empty() ? 0 : PeftRank(config);
  if (!rank) {
    entry.problem = rank.error().text;
    return entry;
  }
  entry.rank = *rank;
  entry.user = Value(*file, kUser);
  entry.model = Value(*file, kModel);
  entry.name = Value(*file, kName);
  entry.bytes = mapped->bytes().size();
  entry.tensors = static_cast<uint32_t>(file->tensors().size());
  entry.zo = *zo;
  return entry;
}

std::vector<fs::path> Below(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    paths.push_back(each->path());
  }
  return paths;
}

}  // namespace

Status CheckAdapterName(std::string_view name) {
  if (name.empty()) return Fail(Code::kInvalid, "an adapter needs a name");
  if (name.size() > kMaxNameBytes) {
    return Fail(Code::kInvalid, "an adapter's name has at most {} bytes, this one has {}",
                kMaxNameBytes, name.size());
  }
  return {};
}

std::unexpected<Error> NoAdapter(std::string_view name) {
  return Fail(Code::kNotFound, "no adapter is named '{}'", name);
}

std::string AdapterStore::FolderOf(std::string_view user) const {
  return root_ + "/" + Blake3Hex(user).substr(0, kNameDigits);
}

std::string AdapterStore::PathOf(const Key& key) const {
  const std::string whole = std::string(key.model) + '\0' + std::string(key.name);
  return FolderOf(key.user) + "/" + Blake3Hex(whole).substr(0, kNameDigits) +
         std::string(kExtension);
}

bool AdapterStore::Exists(const Key& key) const {
  std::error_code ignored;
  return fs::exists(PathOf(key), ignored);
}

Result<AdapterStore::Content> AdapterStore::Read(const Key& key, const AdapterShape& shape,
                                                 const TakeRoom& take_room) const {
  const auto fail = [&](const Error& error) {
    return Fail(error.code, "adapter '{}': {}", key.name, error.text);
  };
  const auto mapped = Map(PathOf(key));
  if (!mapped && mapped.error().code == Code::kNotFound) return NoAdapter(key.name);
  if (!mapped) return fail(mapped.error());
  const auto file = Safetensors::Parse(mapped->bytes(), "its file");
  if (!file) return fail(file.error());
  if (Value(*file, kUser) != key.user || Value(*file, kModel) != key.model ||
      Value(*file, kName) != key.name) {
    return Fail(Code::kInvalid,
                "adapter '{}': the file in its place belongs to another user, model or name; use "
                "`pie adapter import` to import a file",
                key.name);
  }
  Content content;
  auto zo = FromJson(Value(*file, kZo));
  if (!zo) return fail(zo.error());
  content.zo = *std::move(zo);
  const std::string config = Value(*file, kConfig);
  if (config.empty()) return content;
  if (take_room) PIE_RETURN_IF_ERROR(take_room(PeftParameters(*file) * sizeof(float)));
  auto weights = ReadPeft(config, mapped->bytes(), shape);
  if (!weights) return fail(weights.error());
  if (const Status whole = CheckWhole(*mapped); !whole) return fail(whole.error());
  content.weights = *std::move(weights);
  return content;
}

Result<std::string> AdapterStore::Encode(const Key& key, const Content& content,
                                         const AdapterShape& shape) {
  std::map<std::string, std::string> metadata = {{kUser, std::string(key.user)},
                                                 {kModel, std::string(key.model)},
                                                 {kName, std::string(key.name)},
                                                 {kZo, ToJson(content.zo)}};
  if (content.weights.empty()) return EmptyPeftTensors(metadata);
  metadata[kConfig] = PIE_TRY(WritePeft(content.weights, shape)).config;
  return std::move(PIE_TRY(WritePeft(content.weights, shape, metadata)).tensors);
}

Result<AdapterStore::Peft> AdapterStore::ToPeft(const std::string& path) {
  const MappedFile mapped = PIE_TRY(Map(path));
  const std::string_view bytes(reinterpret_cast<const char*>(mapped.bytes().data()),
                               mapped.bytes().size());
  const Safetensors file = PIE_TRY(Safetensors::Parse(mapped.bytes(), path));
  const std::string config = Value(file, kConfig);
  if (config.empty()) return Fail(Code::kInvalid, "the adapter has no weights yet");
  Peft peft{.config = config, .tensors = PIE_TRY(WithMetadata(bytes, {{"format", "pt"}}))};
  PIE_RETURN_IF_ERROR(CheckWhole(mapped));
  return peft;
}

Status AdapterStore::Import(const Key& key, std::string_view config,
                            std::string_view tensors) const {
  PIE_RETURN_IF_ERROR(CheckAdapterName(key.name));
  const std::map<std::string, std::string> metadata = {{"format", "pt"},
                                                       {kUser, std::string(key.user)},
                                                       {kModel, std::string(key.model)},
                                                       {kName, std::string(key.name)},
                                                       {kConfig, std::string(config)}};
  return WriteBytes(key, PIE_TRY(WithMetadata(tensors, metadata)));
}

// The adapter that will be replaced does not count.
Status AdapterStore::CheckQuota(const Key& key, uint64_t bytes) const {
  size_t count = 1;
  uint64_t total = bytes;
  for (const fs::path& file : Below(FolderOf(key.user))) {
    std::error_code error;
    if (file.extension() != kExtension || file == PathOf(key)) continue;
    const auto size = fs::file_size(file, error);
    if (error) continue;
    ++count;
    total += size;
  }
  if (count > limits_.max_adapters) {
    return Fail(Code::kExhausted, "user {} has {} adapters already; destroy some", key.user,
                count - 1);
  }
  if (total > limits_.max_adapter_bytes) {
    return Fail(Code::kExhausted,
                "user {}'s adapters would take {} MiB; at most {} MiB are allowed: destroy some",
                key.user, (total >> 20) + 1, limits_.max_adapter_bytes >> 20);
  }
  return {};
}

Status AdapterStore::WriteBytes(const Key& key, std::string_view bytes) const {
  std::error_code error;
  const std::string folder = FolderOf(key.user);
  const bool made = fs::create_directories(folder, error);
  if (error) {
    return Fail(Code::kInternal, "cannot make the folder of adapters: {}", error.message());
  }
  if (made) {  // the new folder must be on the disk before an adapter in it
    PIE_RETURN_IF_ERROR(SyncFolder(root_));
    PIE_RETURN_IF_ERROR(SyncFolder(fs::path(root_).parent_path()));
  }
  fs::permissions(root_, fs::perms::owner_all, error);
  PIE_RETURN_IF_ERROR(CheckQuota(key, bytes.size()));
  return WriteWhole(PathOf(key), bytes, 0600);
}

Status AdapterStore::Write(const Key& key, const Content& content,
                           const AdapterShape& shape) const {
  return WriteBytes(key, PIE_TRY(Encode(key, content, shape)));
}

Status AdapterStore::Delete(const Key& key) const {
  std::error_code error;
  if (fs::remove(PathOf(key), error)) return SyncFolder(FolderOf(key.user));
  if (!error) return NoAdapter(key.name);
  return Fail(Code::kInternal, "adapter '{}' cannot be deleted: {}", key.name, error.message());
}

std::vector<AdapterStore::Entry> AdapterStore::List() const {
  std::vector<Entry> entries;
  for (const fs::path& folder : Below(root_)) {
    for (const fs::path& path : Below(folder)) {
      if (path.extension() == kExtension) entries.push_back(Describe(path));
    }
  }
  return entries;
}

std::vector<AdapterStore::Entry> AdapterStore::ListOf(std::string_view user, size_t most) const {
  std::vector<Entry> entries;
  for (const fs::path& path : Below(FolderOf(user))) {
    if (entries.size() == most) break;
    if (path.extension() == kExtension) entries.push_back(Describe(path));
  }
  return entries;
}

}  // namespace pie::host
