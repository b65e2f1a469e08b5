#include "model/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "model/json_text.h"
#include "model/limits.h"
#include "model/shown.h"

namespace pie {
namespace {

using nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kIndexSuffix = ".index.json";

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<std::vector<uint64_t>> Unsigneds(const json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) return std::nullopt;
  std::vector<uint64_t> values;
  for (const json& value : *found) {
    if (!value.is_number_unsigned()) return std::nullopt;
    values.push_back(value.get<uint64_t>());
  }
  return values;
}

// One entry of the header: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}.
Result<Tensor> ReadEntry(const std::string& name, const json& entry,
                         std::span<const std::byte> data) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string()) {
    return Fail(Code::kInvalid, "its dtype is missing");
  }
  const auto& type = entry["dtype"].get_ref<const std::string&>();
  const auto dtype = DTypeFromSafetensors(type);
  if (!dtype) {
    return Fail(Code::kUnavailable,
                "dtype '{}' is not supported; supported weights: F32, F16, BF16, F8_E4M3",
                Shown(type));
  }
  auto shape = Unsigneds(entry, "shape");
  if (!shape || shape->size() > limits::kSafetensorsDimensions) {
    return Fail(Code::kInvalid, "its shape must be a list of at most {} sizes",
                limits::kSafetensorsDimensions);
  }
  const auto offsets = Unsigneds(entry, "data_offsets");
  if (!offsets || offsets->size() != 2) {
    return Fail(Code::kInvalid, "its data_offsets must be [begin, end]");
  }
  const uint64_t begin = (*offsets)[0];
  const uint64_t end = (*offsets)[1];
  const uint64_t bytes = PIE_TRY(TensorBytes(*dtype, *shape));
  if (begin > end || end > data.size()) {
    return Fail(
        Code::kInvalid,
        "its data_offsets are [{}, {}], but the file has {} bytes of data; is it truncated?", begin,
        end, data.size());
  }
  if (end - begin != bytes) {
    return Fail(Code::kInvalid, "its shape needs {} bytes, but its data_offsets span {}", bytes,
                end - begin);
  }
  return Tensor{name, *dtype, *std::move(shape), data.subspan(begin, bytes)};
}

// Checks that the data have neither overlaps nor gaps, as the format requires.
Status CheckPlaces(const TensorTable& tensors, std::span<const std::byte> data) {
  std::vector<const Tensor*> placed;
  for (const Tensor& tensor : tensors.all()) placed.push_back(&tensor);
  std::ranges::sort(placed, {}, [](const Tensor* tensor) { return tensor->data.data(); });
  const std::byte* expected = data.data();
  for (const Tensor* tensor : placed) {
    if (tensor->data.data() != expected) {
      return Fail(Code::kInvalid, "the data of tensor '{}' {} the data before them",
                  Shown(tensor->name),
                  tensor->data.data() < expected ? "overlap" : "leave a gap after");
    }
    expected += tensor->data.size();
  }
  const auto rest = static_cast<size_t>(data.data() + data.size() - expected);
  if (rest != 0)
    return Fail(Code::kInvalid, "{} bytes at the end of the file belong to no tensor", rest);
  return {};
}

// A shard's name must be a plain file name: shards lie in the folder of their index.
bool IsFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

Result<Safetensors> Safetensors::Parse(std::span<const std::byte> bytes, const std::string& name) {
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) {
    return Fail(Code::kInvalid,
                "{}: truncated file: {} bytes, less than the header's length field (8)", name,
                bytes.size());
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  const auto rest = bytes.subspan(sizeof(length));
  if (length > limits::kSafetensorsHeaderBytes) {
    return Fail(Code::kInvalid,
                "{}: the header's length is {} bytes (at most {} are allowed); is it a "
                "safetensors file?",
                name, length, limits::kSafetensorsHeaderBytes);
  }
  if (length > rest.size()) {
    return Fail(Code::kInvalid, "{}: truncated file: the header has {} bytes, but only {} follow",
                name, length, rest.size());
  }
  const json header = PIE_TRY(ParseJsonObject(Text(rest.first(length)), name, 3));
  const auto data = rest.subspan(length);

  Safetensors read;
  for (const auto& [key, entry] : header.items()) {
    if (key == kMetadataKey) {
      if (!entry.is_object())
        return Fail(Code::kInvalid, "{}: __metadata__ must be an object", name);
      for (const auto& [field, value] : entry.items()) {
        if (value.is_string()) read.metadata_.emplace(field, value.get<std::string>());
      }
      continue;
    }
    auto tensor = ReadEntry(key, entry, data);
    if (!tensor) {
      return Fail(tensor.error().code, "{}: tensor '{}': {}", name, Shown(key),
                  tensor.error().text);
    }
    read.tensors_.Add(*std::move(tensor));  // the parser has refused duplicate keys
  }
  if (const Status placed = CheckPlaces(read.tensors_, data); !placed) {
    return Fail(Code::kInvalid, "{}: {}", name, placed.error().text);
  }
  return read;
}

Result<Safetensors> Safetensors::OpenFile(const std::filesystem::path& path) {
  MappedFile file = PIE_TRY(MappedFile::Open(path));
  Safetensors read = PIE_TRY(Parse(file.bytes(), path.string()));
  read.files_.push_back({path.string(), std::move(file)});
  return read;
}

Result<Safetensors> Safetensors::OpenIndex(const std::filesystem::path& path) {
  const std::string name = path.string();
  const MappedFile file = PIE_TRY(MappedFile::Open(path));
  if (file.bytes().size() > limits::kConfigBytes) {
    return Fail(Code::kInvalid, "{}: the index has {} bytes; at most {} are allowed", name,
                file.bytes().size(), limits::kConfigBytes);
  }
  const json index = PIE_TRY(ParseJsonObject(Text(file.bytes()), name, 8));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    return Fail(Code::kInvalid, "{}: the index has no weight_map", name);
  }
  std::map<std::string, std::vector<std::string>> shards;  // file → its tensors
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !IsFileName(shard.get_ref<const std::string&>())) {
      return Fail(Code::kInvalid,
                  "{}: the shard of tensor '{}' must be a file in the folder of the index", name,
                  Shown(tensor));
    }
    shards[shard.get<std::string>()].push_back(tensor);
  }
  if (shards.size() > limits::kSafetensorsShards) {
    return Fail(Code::kInvalid, "{}: the index lists {} shards; at most {} are allowed", name,
                shards.size(), limits::kSafetensorsShards);
  }

  Safetensors joined;
  for (const auto& [shard, names] : shards) {
    Safetensors part = PIE_TRY(OpenFile(path.parent_path() / shard));
    for (const std::string& tensor : names) {  // tensors that the index does not list are ignored
      const Tensor* found = part.tensors_.Find(tensor);
      if (found == nullptr) {
        return Fail(Code::kInvalid, "{}: tensor '{}' is not in {}", name, Shown(tensor),
                    Shown(shard));
      }
      joined.tensors_.Add(*found);
    }
    std::ranges::move(part.files_, std::back_inserter(joined.files_));
    joined.metadata_.merge(part.metadata_);
  }
  return joined;
}

const Safetensors::File* Safetensors::FileOf(std::span<const std::byte> data) const {
  const auto holds = [&](const File& file) {
    const auto bytes = file.mapping.bytes();
    return bytes.data() <= data.data() && data.data() + data.size() <= bytes.data() + bytes.size();
  };
  const auto found = std::ranges::find_if(files_, holds);
  return found == files_.end() ? nullptr : &*found;
}

Result<Safetensors> Safetensors::Open(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const auto index = path / "model.safetensors.index.json";
    if (std::filesystem::exists(index, ignored)) return OpenIndex(index);
    return OpenFile(path / "model.safetensors");
  }
  return path.string().ends_with(kIndexSuffix) ? OpenIndex(path) : OpenFile(path);
}

}  // namespace pie
