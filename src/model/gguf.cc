#include "model/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "model/gguf_layout.h"
#include "model/limits.h"
#include "model/shown.h"

namespace pie {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kDefaultAlignment = 32;
// The smallest size in a file of a key with its value, and of a tensor's entry.
constexpr uint64_t kLeastMetadataBytes = 8 + 4 + 1;
constexpr uint64_t kLeastTensorBytes = 8 + 4 + 4 + 8;

}  // namespace

// Reads a file front to back. `what_` names the part that is being read, for errors.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, Gguf& out) : bytes_(bytes), out_(out) {}

  Status Parse() {
    PIE_RETURN_IF_ERROR(Header());
    PIE_RETURN_IF_ERROR(Metadata());
    PIE_RETURN_IF_ERROR(Alignment());
    PIE_RETURN_IF_ERROR(Tensors());
    return Placement();
  }

 private:
  // A tensor before its data are placed: the data begin after the last entry.
  struct Entry {
    Tensor tensor;
    uint64_t offset;  // from the start of the data
    uint64_t bytes;
  };

  template <class... Args>
  std::unexpected<Error> Bad(fmt::format_string<Args...> format, Args&&... args) const {
    return Fail(Code::kInvalid, "{}: {}, at byte {}: {}", out_.name_, what_, at_,
                fmt::format(format, std::forward<Args>(args)...));
  }

  uint64_t left() const { return bytes_.size() - at_; }

  Result<std::span<const std::byte>> Take(uint64_t count) {
    if (count > left()) {
      return Bad("truncated file: {} more bytes are needed, {} are left; download it again", count,
                 left());
    }
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }

  template <class T>
  Result<T> Read() {
    const auto bytes = PIE_TRY(Take(sizeof(T)));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  Result<std::string_view> Name() {
    const auto length = PIE_TRY(Read<uint64_t>());
    if (length == 0 || length > limits::kGgufNameBytes) {
      return Bad("a name has {} bytes; 1 to {} are allowed", length, limits::kGgufNameBytes);
    }
    const auto bytes = PIE_TRY(Take(length));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  Status Header() {
    what_ = "the header";
    const auto magic = PIE_TRY(Take(kMagic.size()));
    if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) {
      at_ = 0;
      return Bad("this is not a GGUF file: it does not begin with \"GGUF\"");
    }
    const auto version = PIE_TRY(Read<uint32_t>());
    if (version == std::byteswap(2U) || version == std::byteswap(3U)) {
      return Bad("big-endian files are not supported; convert the file to little-endian");
    }
    if (version != 2 && version != 3) {
      return Bad("version {} is not supported, only 2 and 3 are; convert the model again", version);
    }
    out_.version_ = version;
    tensor_count_ = PIE_TRY(Read<uint64_t>());
    metadata_count_ = PIE_TRY(Read<uint64_t>());
    if (metadata_count_ > std::min(limits::kGgufMetadata, left() / kLeastMetadataBytes)) {
      return Bad("the header announces {} metadata values, too many for {} bytes (the limit is {})",
                 metadata_count_, bytes_.size(), limits::kGgufMetadata);
    }
    if (tensor_count_ > std::min(limits::kGgufTensors, left() / kLeastTensorBytes)) {
      return Bad("the header announces {} tensors, too many for {} bytes (the limit is {})",
                 tensor_count_, bytes_.size(), limits::kGgufTensors);
    }
    return {};
  }

  Status Metadata() {
    for (uint64_t i = 0; i < metadata_count_; ++i) {
      what_ = fmt::format("metadata key {} of {}", i + 1, metadata_count_);
      const std::string_view key = PIE_TRY(Name());
      what_ = fmt::format("metadata '{}'", Shown(key));
      const auto type = static_cast<GgufType>(PIE_TRY(Read<uint32_t>()));
      const uint64_t begin = at_;
      PIE_RETURN_IF_ERROR(SkipValue(type, 0));
      const GgufValue value(type, bytes_.subspan(begin, at_ - begin));
      if (!out_.metadata_.emplace(key, value).second) return Bad("duplicate key");
    }
    return {};
  }

  // Skips a value and checks all of it.
  Status SkipValue(GgufType type, uint32_t depth) {
    if (type == GgufType::kString) {
      PIE_RETURN_IF_ERROR(Take(PIE_TRY(Read<uint64_t>())));
      return {};
    }
    if (type == GgufType::kArray) return SkipArray(depth);
    if (!gguf::IsScalar(type)) return Bad("unknown value type {}", std::to_underlying(type));
    const auto bytes = PIE_TRY(Take(gguf::ScalarBytes(type)));
    if (type == GgufType::kBool && bytes[0] > std::byte{1}) {
      return Bad("a boolean is {}; it must be 0 or 1", std::to_integer<int>(bytes[0]));
    }
    return {};
  }

  Status SkipArray(uint32_t depth) {
    if (depth == limits::kGgufArrayDepth) {
      return Bad("arrays are nested deeper than {}", limits::kGgufArrayDepth);
    }
    const auto element = static_cast<GgufType>(PIE_TRY(Read<uint32_t>()));
    const auto count = PIE_TRY(Read<uint64_t>());
    const bool compound = element == GgufType::kString || element == GgufType::kArray;
    if (!compound && !gguf::IsScalar(element)) {
      return Bad("unknown element type {}", std::to_underlying(element));
    }
    const uint64_t least = element == GgufType::kString  ? sizeof(uint64_t)
                           : element == GgufType::kArray ? gguf::kArrayHeader
                                                         : gguf::ScalarBytes(element);
    if (count > left() / least) {
      return Bad("an array of {} elements does not fit into the {} bytes left", count, left());
    }
    if (!compound && element != GgufType::kBool) {
      PIE_RETURN_IF_ERROR(Take(count * least));
      return {};
    }
    for (uint64_t i = 0; i < count; ++i) PIE_RETURN_IF_ERROR(SkipValue(element, depth + 1));
    return {};
  }

  Status Alignment() {
    out_.alignment_ = kDefaultAlignment;
    if (const GgufValue* value = out_.Find("general.alignment")) {
      what_ = "metadata 'general.alignment'";
      const int64_t alignment = value->Integer().value_or(0);
      if (alignment < 8 || alignment > limits::kGgufAlignment ||
          !std::has_single_bit(static_cast<uint64_t>(alignment))) {
        return Bad("the value must be a power of two from 8 to {}", limits::kGgufAlignment);
      }
      out_.alignment_ = static_cast<uint64_t>(alignment);
    }
    if (const GgufValue* parts = out_.Find("split.count"); parts && parts->Integer() > 1) {
      return Fail(
          Code::kUnavailable,
          "{}: this is one of {} parts of a model; merge them with `llama-gguf-split --merge`",
          out_.name_, *parts->Integer());
    }
    return {};
  }

  Status Tensors() {
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      what_ = fmt::format("tensor {} of {}", i + 1, tensor_count_);
      Entry entry;
      entry.tensor.name = PIE_TRY(Name());
      what_ = fmt::format("tensor '{}'", Shown(entry.tensor.name));
      const auto rank = PIE_TRY(Read<uint32_t>());
      if (rank > limits::kGgufDimensions) {
        return Bad("the tensor has {} dimensions; at most {} are allowed", rank,
                   limits::kGgufDimensions);
      }
      for (uint32_t d = 0; d < rank; ++d) {
        entry.tensor.shape.push_back(PIE_TRY(Read<uint64_t>()));
      }
      std::ranges::reverse(entry.tensor.shape);  // the file stores the contiguous dimension first
      const auto number = PIE_TRY(Read<uint32_t>());
      const auto dtype = DTypeFromGguf(number);
      if (!dtype) return Bad("unknown type {}; quantise the model to a current type", number);
      entry.tensor.dtype = *dtype;
      const auto bytes = TensorBytes(*dtype, entry.tensor.shape);
      if (!bytes) return Bad("{}", bytes.error().text);
      entry.bytes = *bytes;
      entry.offset = PIE_TRY(Read<uint64_t>());
      if (entry.offset % out_.alignment_ != 0) {
        return Bad("its data are at offset {}, which is not a multiple of {}", entry.offset,
                   out_.alignment_);
      }
      entries_.push_back(std::move(entry));
    }
    return {};
  }

  // The data begin at the next multiple of the alignment.
  Status Placement() {
    const uint64_t begin = (at_ + out_.alignment_ - 1) / out_.alignment_ * out_.alignment_;
    const uint64_t size = bytes_.size() - std::min<uint64_t>(begin, bytes_.size());
    at_ = begin;
    for (Entry& entry : entries_) {
      what_ = fmt::format("tensor '{}'", Shown(entry.tensor.name));
      if (entry.offset > size || entry.bytes > size - entry.offset) {
        return Bad("truncated file: the tensor has {} bytes at offset {}, but the data end at {}",
                   entry.bytes, entry.offset, size);
      }
      entry.tensor.data = bytes_.subspan(begin + entry.offset, entry.bytes);
      if (!out_.tensors_.Add(std::move(entry.tensor))) return Bad("duplicate name");
    }
    return Overlaps();
  }

  Status Overlaps() {
    std::vector<const Tensor*> placed;
    for (const Tensor& tensor : out_.tensors_.all()) placed.push_back(&tensor);
    const auto start = [](const Tensor* tensor) { return tensor->data.data(); };
    std::ranges::sort(placed, {}, start);
    for (size_t i = 1; i < placed.size(); ++i) {
      if (start(placed[i]) < start(placed[i - 1]) + placed[i - 1]->data.size()) {
        at_ = static_cast<uint64_t>(start(placed[i]) - bytes_.data());
        what_ = fmt::format("tensor '{}'", Shown(placed[i]->name));
        return Bad("its data overlap those of tensor '{}'", Shown(placed[i - 1]->name));
      }
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  Gguf& out_;
  std::string what_;
  uint64_t at_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t metadata_count_ = 0;
  std::vector<Entry> entries_;
};

Result<Gguf> Gguf::Open(const std::filesystem::path& path) {
  MappedFile file = PIE_TRY(MappedFile::Open(path));
  Gguf gguf = PIE_TRY(Parse(file.bytes(), path.string()));
  gguf.file_ = std::move(file);
  return gguf;
}

Result<Gguf> Gguf::Parse(std::span<const std::byte> bytes, std::string name) {
  Gguf gguf;
  gguf.name_ = std::move(name);
  PIE_RETURN_IF_ERROR(GgufParser(bytes, gguf).Parse());
  return gguf;
}

const GgufValue* Gguf::Find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

}  // namespace pie
