// Described types: C++ types with a JSON Schema, for Generator::CollectJson<T>.
//
//   struct City {
//     std::string name;
//     int32_t people = 0;
//     std::optional<std::string> river;
//     static constexpr auto kFields = std::tuple(
//         Field("name", &City::name), Field("people", &City::people), Field("river",
//         &City::river));
//   };
//   City city = PIE_TRY(co_await generator.CollectJson<City>());
//
// bool, numbers, std::string, Json, and std::vector, std::optional and std::map<std::string, …> of
// described types are described. An enum is described by an array of its values' texts:
// `constexpr std::array<const char*, 2> EnumTexts(Colour) { return {"red", "blue"}; }`.
// An optional field may be missing. A type cannot contain itself.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "inferlet/json.h"
#include "inferlet/result.h"

namespace inferlet {

// A member and its name in the document.
template <class Class, class Member>
struct Field {
  // Binds a member to its name. `its_name` must outlive the field, as a literal does.
  constexpr Field(const char* its_name, Member Class::* its_member)
      : name(its_name), member(its_member) {}
  // The name in the document.
  const char* name;
  // The member of the struct.
  Member Class::* member;
};

namespace detail {

template <class T>
struct Description {
  static constexpr bool kExists = false;
};

}  // namespace detail

// A type that has a JSON Schema.
template <class T>
concept Described = detail::Description<T>::kExists;

// The JSON Schema of a type.
template <Described T>
Json SchemaOf() {
  return detail::Description<T>::Schema();
}

// Reads a value of the type from a document. The error names the member that is wrong.
template <Described T>
Result<T> FromJson(const Json& json) {
  return detail::Description<T>::Read(json);
}

namespace detail {

struct Exists {
  static constexpr bool kExists = true;
};

inline Json Typed(const char* type) {
  return Json::Object({{"type", type}});
}

template <>
struct Description<Json> : Exists {
  static Json Schema() { return Json::Object(); }
  static Result<Json> Read(const Json& json) { return json; }
};

template <>
struct Description<bool> : Exists {
  static Json Schema() { return Typed("boolean"); }
  static Result<bool> Read(const Json& json) { return json.As<bool>(); }
};

template <>
struct Description<std::string> : Exists {
  static Json Schema() { return Typed("string"); }
  static Result<std::string> Read(const Json& json) { return json.As<std::string>(); }
};

template <std::floating_point T>
struct Description<T> : Exists {
  static Json Schema() { return Typed("number"); }
  static Result<T> Read(const Json& json) { return json.As<T>(); }
};

template <std::integral T>
  requires(!std::same_as<T, bool>)
struct Description<T> : Exists {
  static Json Schema() {
    // Larger numbers are not exact in every JSON reader.
    constexpr int64_t kExact = (int64_t{1} << 53) - 1;
    using Limits = std::numeric_limits<T>;
    const int64_t least = std::is_signed_v<T> ? std::max<int64_t>(Limits::min(), -kExact) : 0;
    const int64_t most =
        std::in_range<int64_t>(Limits::max()) ? std::min<int64_t>(Limits::max(), kExact) : kExact;
    return Json::Object({{"type", "integer"}, {"minimum", least}, {"maximum", most}});
  }
  static Result<T> Read(const Json& json) { return json.As<T>(); }
};

template <class T>
  requires std::is_enum_v<T> && requires(T value) { EnumTexts(value); }
struct Description<T> : Exists {
  static Json Schema() {
    Json texts = Json::Array();
    for (const char* text : EnumTexts(T())) texts.Append(text);
    return Json::Object({{"enum", texts}});
  }
  static Result<T> Read(const Json& json) {
    const auto text = PIE_TRY_SYNC(json.As<std::string>());
    std::underlying_type_t<T> value = 0;
    for (const char* known : EnumTexts(T())) {
      if (text == known) return static_cast<T>(value);
      ++value;
    }
    return Error('"' + text + "\" is none of the values");
  }
};

template <Described T>
struct Description<std::vector<T>> : Exists {
  static Json Schema() { return Json::Object({{"type", "array"}, {"items", SchemaOf<T>()}}); }
  static Result<std::vector<T>> Read(const Json& json) {
    if (!json.IsArray()) return Error("expected an array, not " + json.Dump());
    std::vector<T> items;
    for (const Json& item : json.ItemList()) items.push_back(PIE_TRY_SYNC(FromJson<T>(item)));
    return items;
  }
};

template <Described T>
struct Description<std::optional<T>> : Exists {
  static Json Schema() {
    return Json::Object({{"anyOf", Json::Array({SchemaOf<T>(), Typed("null")})}});
  }
  static Result<std::optional<T>> Read(const Json& json) {
    if (json.IsNull()) return std::nullopt;
    return PIE_TRY_SYNC(FromJson<T>(json));
  }
};

template <Described T>
struct Description<std::map<std::string, T>> : Exists {
  static Json Schema() {
    return Json::Object({{"type", "object"}, {"additionalProperties", SchemaOf<T>()}});
  }
  static Result<std::map<std::string, T>> Read(const Json& json) {
    if (!json.IsObject()) return Error("expected an object, not " + json.Dump());
    std::map<std::string, T> members;
    for (const auto& [key, value] : json.MemberList()) {
      members.emplace(key, PIE_TRY_SYNC(FromJson<T>(value)));
    }
    return members;
  }
};

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
  requires requires { T::kFields; }
struct Description<T> : Exists {
  static Json Schema() {
    Json properties = Json::Object();
    Json required = Json::Array();
    std::apply([&](const auto&... field) { (Describe(field, properties, required), ...); },
               T::kFields);
    return Json::Object({{"type", "object"},
                         {"properties", properties},
                         {"required", required},
                         {"additionalProperties", false}});
  }
  static Result<T> Read(const Json& json) {
    if (!json.IsObject()) return Error("expected an object, not " + json.Dump());
    T value{};
    Result<void> read;
    std::apply([&](const auto&... field) { (ReadField(field, json, value, read), ...); },
               T::kFields);
    if (!read) return Error(std::move(read).error());
    return value;
  }

 private:
  template <class Member>
  static void Describe(const Field<T, Member>& field, Json& properties, Json& required) {
    properties[field.name] = SchemaOf<Member>();
    if constexpr (!kIsOptional<Member>) required.Append(field.name);
  }
  template <class Member>
  static void ReadField(const Field<T, Member>& field, const Json& json, T& value,
                        Result<void>& read) {
    if (!read) return;
    Result<Member> member = FromJson<Member>(json[field.name]);
    if (member) {
      value.*field.member = *std::move(member);
    } else {
      read = Error(std::string(field.name) + ": " + member.error());
    }
  }
};

}  // namespace detail
}  // namespace inferlet
