// Gguf: a model file in the GGUF format, versions 2 and 3, little-endian: metadata and a table of
// tensors over a mapping of the file. Immutable after opening, shared by threads. Values and
// tensors point into the mapping and live as long as the Gguf.
//
// The file is not trusted: every count, length and offset is checked against the file's size before
// use, and before memory is allocated for it. Errors name the file, the offset and the field there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/mapped_file.h"
#include "model/tensor.h"

namespace pie {

enum class GgufType : uint32_t {  // values as in the format
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// One metadata value, validated when the file was opened. Arrays stay in the file until they are
// read.
class GgufValue {
 public:
  GgufValue(GgufType type, std::span<const std::byte> payload) : type_(type), payload_(payload) {}

  GgufType type() const { return type_; }
  // Each returns none if the value is of another kind. Integer takes integers of every width;
  // Number takes integers and floats.
  std::optional<int64_t> Integer() const;  // none above 2^63 - 1
  std::optional<double> Number() const;
  std::optional<bool> Bool() const;
  std::optional<std::string_view> String() const;

  // For arrays only. Other values have size 0 and no elements.
  uint64_t size() const;
  std::optional<GgufType> element_type() const;
  std::vector<GgufValue> Elements() const;
  // Return none unless every element is of that kind. An empty array is of every kind.
  std::optional<std::vector<std::string_view>> Strings() const;
  std::optional<std::vector<int64_t>> Integers() const;
  std::optional<std::vector<double>> Numbers() const;
  std::optional<std::vector<bool>> Bools() const;

 private:
  template <class T>
  std::optional<std::vector<T>> All(std::optional<T> (GgufValue::*get)() const) const;

  GgufType type_;
  std::span<const std::byte> payload_;  // as in the file; strings and arrays include their lengths
};

class Gguf {
 public:
  static Result<Gguf> Open(const std::filesystem::path& path);
  // Parses bytes that the caller keeps alive. `name` is for errors.
  static Result<Gguf> Parse(std::span<const std::byte> bytes, std::string name);

  using Metadata = std::map<std::string, GgufValue, std::less<>>;

  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }  // of tensors, in bytes
  const Metadata& metadata() const { return metadata_; }
  const GgufValue* Find(std::string_view key) const;
  const TensorTable& tensors() const { return tensors_; }
  const MappedFile& file() const { return file_; }  // empty after Parse

 private:
  friend class GgufParser;
  Gguf() = default;

  MappedFile file_;
  std::string name_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 0;
  Metadata metadata_;
  TensorTable tensors_;
};

}  // namespace pie
