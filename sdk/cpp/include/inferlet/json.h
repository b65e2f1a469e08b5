// Json: a JSON value, to read inputs with and to build outputs from.
//
//   auto prompt = PIE_TRY(input.Get<std::string>("prompt"));       // fails if it is missing
//   auto limit = PIE_TRY(input.Get("max_tokens", 64));             // 64 if it is missing
//   co_return Json::Object({{"text", text}, {"tokens", tokens}});
//
// Objects keep the order of their members and find them by a linear search.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "inferlet/result.h"

namespace inferlet {

// A JSON value: null, true or false, a number, a string, an array or an object.
class Json {
 public:
  using Member = std::pair<std::string, Json>;
  using Items = std::vector<Json>;
  using Members = std::vector<Member>;

  Json() = default;
  // A C++ value becomes the JSON value that stands for it; an empty optional becomes null.
  Json(std::nullptr_t) {}
  template <std::same_as<bool> T>
  Json(T value) : value_(value) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Json(T value) : value_(static_cast<int64_t>(value)) {}
  template <std::floating_point T>
  Json(T value) : value_(static_cast<double>(value)) {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(std::string text) : value_(std::move(text)) {}
  Json(Items items) : value_(std::move(items)) {}
  template <class T>
  Json(const std::vector<T>& items) : value_(Items(items.begin(), items.end())) {}
  template <class T>
  Json(const std::optional<T>& value) {
    if (value) *this = Json(*value);
  }

  // Makes an array of these items.
  static Json Array(std::initializer_list<Json> items = {}) { return Json(Items(items)); }
  // Makes an object of these members, in this order.
  static Json Object(std::initializer_list<Member> members = {}) {
    Json object;
    object.value_ = Members(members);
    return object;
  }

  // Parses one JSON text. The error names the offset of the fault.
  static Result<Json> Parse(std::string_view text);
  // Returns the value as JSON without spaces. A number that JSON cannot write (NaN, infinity)
  // becomes null.
  std::string Dump() const;
  // Returns a string as it is, and everything else as JSON. This is how values leave the inferlet.
  std::string Text() const { return IsString() ? std::get<std::string>(value_) : Dump(); }

  // Whether the value is null.
  bool IsNull() const { return Holds<std::monostate>(); }
  // Whether the value is true or false.
  bool IsBool() const { return Holds<bool>(); }
  // Whether the value is a whole number of 64 bits.
  bool IsInteger() const { return Holds<int64_t>(); }
  // Whether the value is a number, whole or not.
  bool IsNumber() const { return Holds<int64_t>() || Holds<double>(); }
  // Whether the value is a string.
  bool IsString() const { return Holds<std::string>(); }
  // Whether the value is an array.
  bool IsArray() const { return Holds<Items>(); }
  // Whether the value is an object.
  bool IsObject() const { return Holds<Members>(); }

  // Returns the value as a C++ type: bool, a number, std::string, Json, or a std::vector of these.
  template <class T>
  Result<T> As() const;

  // Returns a member by name. Fails if it is missing or has another type.
  template <class T>
  Result<T> Get(std::string_view key) const;
  // Returns a member by name, or a fallback if the member is missing or null.
  template <class T>
  Result<T> Get(std::string_view key, T fallback) const;
  Result<std::string> Get(std::string_view key, const char* fallback) const {
    return Get<std::string>(key, fallback);
  }

  // Returns a member or item, or null if there is none.
  const Json& operator[](std::string_view key) const;
  const Json& operator[](size_t index) const;
  // Returns a member to assign to. A value that is not an object becomes an empty one first.
  Json& operator[](std::string_view key);
  // Adds an item to an array. A value that is not an array becomes an empty one first.
  void Append(Json item);

  size_t Size() const;  // the number of members or items; 0 for everything else
  // The items of an array; empty for everything else.
  const Items& ItemList() const;
  // The members of an object; empty for everything else.
  const Members& MemberList() const;

  friend bool operator==(const Json&, const Json&) = default;

 private:
  template <class T>
  bool Holds() const {
    return std::holds_alternative<T>(value_);
  }
  void DumpInto(std::string& out) const;
  const char* TypeName() const;

  std::variant<std::monostate, bool, int64_t, double, std::string, Items, Members> value_;
};

namespace detail {

template <class T>
constexpr bool kIsVector = false;
template <class T>
constexpr bool kIsVector<std::vector<T>> = true;

}  // namespace detail

template <class T>
Result<T> Json::As() const {
  if constexpr (std::same_as<T, Json>) {
    return *this;
  } else if constexpr (std::same_as<T, bool>) {
    if (const bool* value = std::get_if<bool>(&value_)) return *value;
    return Error(std::string("expected true or false, not ") + TypeName());
  } else if constexpr (std::integral<T>) {
    if (const int64_t* value = std::get_if<int64_t>(&value_)) {
      if (std::in_range<T>(*value)) return static_cast<T>(*value);
      return Error("the number " + std::to_string(*value) + " is out of range");
    }
    return Error(std::string("expected a whole number, not ") + TypeName());
  } else if constexpr (std::floating_point<T>) {
    if (const int64_t* value = std::get_if<int64_t>(&value_)) return static_cast<T>(*value);
    if (const double* value = std::get_if<double>(&value_)) return static_cast<T>(*value);
    return Error(std::string("expected a number, not ") + TypeName());
  } else if constexpr (std::same_as<T, std::string>) {
    if (const std::string* value = std::get_if<std::string>(&value_)) return *value;
    return Error(std::string("expected a string, not ") + TypeName());
  } else {
    static_assert(detail::kIsVector<T>, "Json::As knows bool, numbers, std::string, Json, vectors");
    if (!IsArray()) return Error(std::string("expected an array, not ") + TypeName());
    T items;
    for (const Json& item : ItemList()) {
      items.push_back(PIE_TRY_SYNC(item.As<typename T::value_type>()));
    }
    return items;
  }
}

template <class T>
Result<T> Json::Get(std::string_view key) const {
  const Json& member = (*this)[key];
  if (member.IsNull() && !std::same_as<T, Json>) return Error(std::string(key) + " is missing");
  Result<T> value = member.As<T>();
  if (!value) return Error(std::string(key) + ": " + value.error());
  return value;
}

template <class T>
Result<T> Json::Get(std::string_view key, T fallback) const {
  if ((*this)[key].IsNull()) return fallback;
  return Get<T>(key);
}

}  // namespace inferlet
