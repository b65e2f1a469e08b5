// Typed access to the fields of a JSON object from a file. Errors name the field. Like json_text.h,
// only for the sources of this folder.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pie {

// Points at the object. A field that is null counts as absent, except in NumberOrNone.
class JsonFields {
 public:
  explicit JsonFields(const nlohmann::json& object) : object_(object) {}

  const nlohmann::json* Find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  bool IsNull(const char* key) const { return object_.contains(key) && object_[key].is_null(); }
  const nlohmann::json* Object(const char* key) const {
    const nlohmann::json* value = Find(key);
    return value && value->is_object() ? value : nullptr;
  }

  Result<double> Number(const char* key, std::optional<double> absent = {}) const {
    const nlohmann::json* value = Find(key);
    if (value == nullptr && absent) return *absent;
    if (value == nullptr) return Fail(Code::kInvalid, "'{}' is missing", key);
    const double number = value->is_number() ? value->get<double>() : NAN;
    if (!(std::abs(number) <= std::numeric_limits<float>::max())) {
      return Fail(Code::kInvalid, "'{}' must be a finite number", key);
    }
    return number;
  }
  Result<float> F32(const char* key, std::optional<double> absent = {}) const {
    return static_cast<float>(PIE_TRY(Number(key, absent)));
  }
  // For fields in which null means "none": null is 0.
  Result<double> NumberOrNone(const char* key, double absent) const {
    return Number(key, IsNull(key) ? 0 : absent);
  }
  Result<uint32_t> U32(const char* key, std::optional<uint32_t> absent = {}) const {
    const double number = PIE_TRY(Number(key, absent));
    if (number < 0 || number > std::numeric_limits<uint32_t>::max() ||
        number != std::floor(number)) {
      return Fail(Code::kInvalid, "'{}' must be a whole number from 0 to 2^32 - 1", key);
    }
    return static_cast<uint32_t>(number);
  }
  Result<bool> Bool(const char* key, bool absent) const {
    const nlohmann::json* value = Find(key);
    if (value == nullptr) return absent;
    if (!value->is_boolean()) return Fail(Code::kInvalid, "'{}' must be true or false", key);
    return value->get<bool>();
  }
  std::string Text(const char* key, std::string_view absent = "") const {
    const nlohmann::json* value = Find(key);
    return value && value->is_string() ? value->get<std::string>() : std::string(absent);
  }
  Result<std::vector<float>> Floats(const char* key) const {
    const nlohmann::json* value = Find(key);
    std::vector<float> numbers;
    if (value == nullptr || !value->is_array()) {
      return Fail(Code::kInvalid, "'{}' must be a list of numbers", key);
    }
    for (const nlohmann::json& number : *value) {
      if (!number.is_number()) return Fail(Code::kInvalid, "'{}' must be a list of numbers", key);
      const double clamped = std::clamp(number.get<double>(), 0.0, 1e30);
      numbers.push_back(static_cast<float>(clamped));
    }
    return numbers;
  }

 private:
  const nlohmann::json& object_;
};

}  // namespace pie
