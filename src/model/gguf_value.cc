#include <bit>
#include <cstring>
#include <limits>

#include "model/gguf.h"
#include "model/gguf_layout.h"

namespace pie {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place");

namespace {

template <class T>
T Load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// Size of the value of `type` at the front of `bytes`, which the parser has validated.
size_t LengthOf(GgufType type, std::span<const std::byte> bytes) {
  if (type == GgufType::kString) return sizeof(uint64_t) + Load<uint64_t>(bytes);
  if (type != GgufType::kArray) return gguf::ScalarBytes(type);
  const auto element = static_cast<GgufType>(Load<uint32_t>(bytes));
  const auto count = Load<uint64_t>(bytes.subspan(sizeof(uint32_t)));
  if (gguf::IsScalar(element)) return gguf::kArrayHeader + count * gguf::ScalarBytes(element);
  size_t at = gguf::kArrayHeader;
  for (uint64_t i = 0; i < count; ++i) at += LengthOf(element, bytes.subspan(at));
  return at;
}

}  // namespace

std::optional<int64_t> GgufValue::Integer() const {
  switch (type_) {
    case GgufType::kU8:
      return Load<uint8_t>(payload_);
    case GgufType::kI8:
      return Load<int8_t>(payload_);
    case GgufType::kU16:
      return Load<uint16_t>(payload_);
    case GgufType::kI16:
      return Load<int16_t>(payload_);
    case GgufType::kU32:
      return Load<uint32_t>(payload_);
    case GgufType::kI32:
      return Load<int32_t>(payload_);
    case GgufType::kI64:
      return Load<int64_t>(payload_);
    case GgufType::kU64: {
      const auto value = Load<uint64_t>(payload_);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> GgufValue::Number() const {
  if (type_ == GgufType::kF32) return Load<float>(payload_);
  if (type_ == GgufType::kF64) return Load<double>(payload_);
  if (type_ == GgufType::kU64) return static_cast<double>(Load<uint64_t>(payload_));
  const auto integer = Integer();
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

std::optional<bool> GgufValue::Bool() const {
  if (type_ != GgufType::kBool) return std::nullopt;
  return payload_[0] != std::byte{0};
}

std::optional<std::string_view> GgufValue::String() const {
  if (type_ != GgufType::kString) return std::nullopt;
  const auto text = payload_.subspan(sizeof(uint64_t));
  return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

uint64_t GgufValue::size() const {
  return type_ == GgufType::kArray ? Load<uint64_t>(payload_.subspan(sizeof(uint32_t))) : 0;
}

std::optional<GgufType> GgufValue::element_type() const {
  if (type_ != GgufType::kArray) return std::nullopt;
  return static_cast<GgufType>(Load<uint32_t>(payload_));
}

std::vector<GgufValue> GgufValue::Elements() const {
  std::vector<GgufValue> elements;
  if (type_ != GgufType::kArray) return elements;
  const GgufType element = *element_type();
  elements.reserve(size());
  auto rest = payload_.subspan(gguf::kArrayHeader);
  for (uint64_t i = 0; i < size(); ++i) {
    const size_t length = LengthOf(element, rest);
    elements.emplace_back(element, rest.first(length));
    rest = rest.subspan(length);
  }
  return elements;
}

template <class T>
std::optional<std::vector<T>> GgufValue::All(std::optional<T> (GgufValue::*get)() const) const {
  if (type_ != GgufType::kArray) return std::nullopt;
  std::vector<T> values;
  values.reserve(size());
  for (const GgufValue& element : Elements()) {
    const std::optional<T> value = (element.*get)();
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::optional<std::vector<std::string_view>> GgufValue::Strings() const {
  return All(&GgufValue::String);
}
std::optional<std::vector<int64_t>> GgufValue::Integers() const {
  return All(&GgufValue::Integer);
}
std::optional<std::vector<double>> GgufValue::Numbers() const {
  return All(&GgufValue::Number);
}
std::optional<std::vector<bool>> GgufValue::Bools() const {
  return All(&GgufValue::Bool);
}

}  // namespace pie
