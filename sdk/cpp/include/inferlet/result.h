// Results: a value, or a text that tells a person what went wrong.
//
// The SDK throws nothing (inferlets are built with -fno-exceptions). Functions that can fail return
// `Result<T>`. PIE_TRY takes the value out, or ends the coroutine with the error. If the error ends
// the run, stderr shows the lines of the program that the error has passed.
#pragma once

#include <cstdint>
#include <expected>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

namespace inferlet {

// A value, or a sentence that says what went wrong. PIE_TRY takes the value out.
template <class T>
using Result = std::expected<T, std::string>;

namespace detail {

// Records a line that an error has passed (trace.cc). A different message begins a new trace.
void NotePassage(const std::string& message, const char* file, uint32_t line, const char* function);

inline std::unexpected<std::string> PassOn(std::string message, const char* file, uint32_t line,
                                           const char* function) {
  NotePassage(message, file, line, function);
  return std::unexpected(std::move(message));
}

}  // namespace detail

// `return Error("…")` and `co_return Error("…")` fail a function or coroutine.
inline std::unexpected<std::string> Error(
    std::string message, std::source_location where = std::source_location::current()) {
  return detail::PassOn(std::move(message), where.file_name(), where.line(), where.function_name());
}

namespace detail {

// Converts an error to std::string. Error texts of the bindings have a type of their own.
template <class E>
std::string ErrorText(E&& error) {
  if constexpr (std::is_convertible_v<E, std::string>) {
    return std::forward<E>(error);
  } else {
    return error.to_string();
  }
}

template <class T, class E>
T ValueOf(std::expected<T, E>&& result) {
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace detail
}  // namespace inferlet

// In a coroutine: takes the value of a Result, or ends the coroutine with its error.
//   auto text = PIE_TRY(co_await generator.CollectText());
#define PIE_TRY(...) PIE_TRY_WITH_(co_return, __VA_ARGS__)

// Does the same in a function that is not a coroutine.
#define PIE_TRY_SYNC(...) PIE_TRY_WITH_(return, __VA_ARGS__)

#define PIE_TRY_WITH_(leave, ...)                                                          \
  ({                                                                                       \
    auto pie_result_ = (__VA_ARGS__);                                                      \
    if (!pie_result_.has_value()) {                                                        \
      leave ::inferlet::detail::PassOn(                                                    \
          ::inferlet::detail::ErrorText(std::move(pie_result_).error()), __builtin_FILE(), \
          __builtin_LINE(), __builtin_FUNCTION());                                         \
    }                                                                                      \
    ::inferlet::detail::ValueOf(std::move(pie_result_));                                   \
  })
