// PIE_MAIN(Main): makes `Main` the function that the engine runs.
//
//   Task<Result<Json>> Main(Json input) { … }
//   PIE_MAIN(Main)
//
// `Main` may be a coroutine or a plain function that returns Result<Output>. A `Main()` without a
// parameter ignores the input. Input and Output are
//   Json          parsed and written; a returned Json string goes out as plain text
//   std::string   the text itself, untouched
//   void          (output) nothing, which is the empty text
//   any type      with `static Result<T> FromJson(const Json&)` (input), `Json ToJson() const`
//   (output)
// An empty input stands for {}. An error becomes the Error event that the client receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "inferlet/json.h"
#include "inferlet/reactor.h"
#include "inferlet/result.h"
#include "inferlet/task.h"

// bakery defines the package name of Pie.toml; an editor that reads the code does not need it.
#ifndef PIE_PACKAGE
#define PIE_PACKAGE "inferlet"
#endif

namespace inferlet::detail {

template <class T>
Result<T> Decode(std::string_view text) {
  if constexpr (std::same_as<T, std::string>) {
    return std::string(text);
  } else {
    const bool blank = text.find_first_not_of(" \t\r\n") == std::string_view::npos;
    Result<Json> json = blank ? Json::Object() : Json::Parse(text);
    if (!json) return Error("the input is not JSON: " + json.error());
    if constexpr (std::same_as<T, Json>) {
      return json;
    } else {
      Result<T> value = T::FromJson(*json);
      if (!value) return Error("the input does not fit: " + value.error());
      return value;
    }
  }
}

template <class T>
std::string Encode(T value) {
  if constexpr (std::same_as<T, std::string>) {
    return value;
  } else if constexpr (std::same_as<T, Json>) {
    return value.IsString() ? *value.template As<std::string>() : value.Dump();
  } else {
    return value.ToJson().Dump();
  }
}

// The text of what Main returned.
template <class T>
Result<std::string> Returned(Result<T> result) {
  if constexpr (std::is_void_v<T>) {
    PIE_TRY_SYNC(std::move(result));
    return std::string();
  } else {
    return Encode(PIE_TRY_SYNC(std::move(result)));
  }
}

template <class Input, class Output>
Result<std::string> Call(Task<Result<Output>> (*main)(Input), std::string_view text) {
  Input input = PIE_TRY_SYNC(Decode<std::remove_cvref_t<Input>>(text));
  Result<Output> output = PIE_TRY_SYNC(BlockOn(main(std::move(input))));
  return Returned(std::move(output));
}

template <class Input, class Output>
Result<std::string> Call(Result<Output> (*main)(Input), std::string_view text) {
  Input input = PIE_TRY_SYNC(Decode<std::remove_cvref_t<Input>>(text));
  return Returned(main(std::move(input)));
}

template <class Output>
Result<std::string> Call(Task<Result<Output>> (*main)(), std::string_view) {
  Result<Output> output = PIE_TRY_SYNC(BlockOn(main()));
  return Returned(std::move(output));
}

template <class Output>
Result<std::string> Call(Result<Output> (*main)(), std::string_view) {
  return Returned(main());
}

// The canonical ABI's side of `run: func(input: string) -> result<string, string>`.
struct ReturnArea {
  uint8_t is_error;
  char* text;
  size_t size;
};
void BeforeMain();
ReturnArea* AfterMain(Result<std::string> result);
void Free(ReturnArea* area);

}  // namespace inferlet::detail

// Makes a function the one that the engine runs. An inferlet uses it once, outside any namespace.
#define PIE_MAIN(function)                                                              \
  extern "C" [[gnu::used, clang::export_name("pie:" PIE_PACKAGE "/run#run")]]           \
  ::inferlet::detail::ReturnArea* PieRun(char* text, size_t size) {                     \
    ::inferlet::detail::BeforeMain();                                                   \
    auto result = ::inferlet::detail::Call(&(function), std::string_view(text, size));  \
    if (size > 0) std::free(text);                                                      \
    return ::inferlet::detail::AfterMain(std::move(result));                            \
  }                                                                                     \
  extern "C" [[gnu::used, clang::export_name("cabi_post_pie:" PIE_PACKAGE "/run#run")]] \
  void PieRunFree(::inferlet::detail::ReturnArea* area) {                               \
    ::inferlet::detail::Free(area);                                                     \
  }
