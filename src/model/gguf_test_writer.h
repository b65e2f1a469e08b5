// Writes small GGUF files for tests, well-formed or malformed.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/gguf.h"

namespace pie {

class GgufTestWriter {
 public:
  struct TensorEntry {
    std::string name;
    std::vector<uint64_t> dimensions;  // as in the file: contiguous dimension first
    uint32_t type;
    uint64_t offset;
  };

  uint32_t version = 3;
  uint64_t alignment = 32;
  // Added to the counts in the header, to make them wrong.
  uint64_t extra_metadata = 0;
  uint64_t extra_tensors = 0;

  template <class T>
  void Add(std::string_view key, const T& value) {
    Key(key, TypeOf<T>());
    Value(metadata_, value);
  }
  template <class T>
  void AddArray(std::string_view key, const std::vector<T>& values) {
    Key(key, GgufType::kArray);
    Array(metadata_, values);
  }
  // Adds a key whose value is given in raw bytes.
  void AddRaw(std::string_view key, GgufType type, std::string_view payload) {
    Key(key, type);
    metadata_ += payload;
  }

  // Adds a tensor; its data follow those of the previous one.
  void AddTensor(std::string name, std::vector<uint64_t> dimensions, DType dtype,
                 std::string_view data) {
    AddEntry({std::move(name), std::move(dimensions),
              static_cast<uint32_t>(InfoOf(dtype).gguf_number), data_.size()});
    data_ += data;
    Pad(data_);
  }
  void AddZeros(std::string name, std::vector<uint64_t> dimensions, DType dtype = DType::kF32) {
    const std::vector<uint64_t> shape(dimensions.rbegin(), dimensions.rend());
    const std::string zeros(TensorBytes(dtype, shape).value_or(0), '\0');
    AddTensor(std::move(name), std::move(dimensions), dtype, zeros);
  }
  // Adds any entry to the table of tensors, without data.
  void AddEntry(TensorEntry entry) { entries_.push_back(std::move(entry)); }

  std::string Bytes() const {
    std::string file = "GGUF";
    Value(file, version);
    Value(file, entries_.size() + extra_tensors);
    Value(file, metadata_count_ + extra_metadata);
    file += metadata_;
    for (const TensorEntry& entry : entries_) {
      Value(file, entry.name);
      Value(file, static_cast<uint32_t>(entry.dimensions.size()));
      for (uint64_t size : entry.dimensions) Value(file, size);
      Value(file, entry.type);
      Value(file, entry.offset);
    }
    Pad(file);
    return file + data_;
  }

  static void Value(std::string& out, std::string_view text) {
    Value(out, static_cast<uint64_t>(text.size()));
    out += text;
  }
  static void Value(std::string& out, const std::string& text) {
    Value(out, std::string_view(text));
  }
  static void Value(std::string& out, const char* text) { Value(out, std::string_view(text)); }
  template <class T>
    requires std::is_arithmetic_v<T>
  static void Value(std::string& out, T number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof(T));
  }
  template <class T>
  static void Array(std::string& out, const std::vector<T>& values) {
    Value(out, std::to_underlying(TypeOf<T>()));
    Value(out, static_cast<uint64_t>(values.size()));
    for (const T& value : values) Value(out, value);
  }

 private:
  template <class T>
  static constexpr GgufType TypeOf() {
    if constexpr (std::is_same_v<T, uint8_t>) return GgufType::kU8;
    if constexpr (std::is_same_v<T, int8_t>) return GgufType::kI8;
    if constexpr (std::is_same_v<T, uint16_t>) return GgufType::kU16;
    if constexpr (std::is_same_v<T, int16_t>) return GgufType::kI16;
    if constexpr (std::is_same_v<T, uint32_t>) return GgufType::kU32;
    if constexpr (std::is_same_v<T, int32_t>) return GgufType::kI32;
    if constexpr (std::is_same_v<T, uint64_t>) return GgufType::kU64;
    if constexpr (std::is_same_v<T, int64_t>) return GgufType::kI64;
    if constexpr (std::is_same_v<T, float>) return GgufType::kF32;
    if constexpr (std::is_same_v<T, double>) return GgufType::kF64;
    if constexpr (std::is_same_v<T, bool>) return GgufType::kBool;
    return GgufType::kString;
  }

  void Key(std::string_view key, GgufType type) {
    Value(metadata_, key);
    Value(metadata_, std::to_underlying(type));
    ++metadata_count_;
  }
  void Pad(std::string& out) const {
    out.resize((out.size() + alignment - 1) / alignment * alignment);
  }

  std::string metadata_;
  uint64_t metadata_count_ = 0;
  std::vector<TensorEntry> entries_;
  std::string data_;
};

inline Result<Gguf> ParseGguf(const std::string& bytes) {
  return Gguf::Parse(std::as_bytes(std::span(bytes)), "test.gguf");
}

}  // namespace pie
