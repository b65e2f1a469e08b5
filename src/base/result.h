// Result<T>: reports every failure that a user, a file, the network, a guest or a device can cause.
// Our own bugs stop the process instead (PIE_CHECK). No exception leaves a folder.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <expected>
#include <string>
#include <utility>

namespace pie {

enum class Code {
  kInvalid,      // the request makes no sense
  kNotFound,     // nothing has this name
  kExhausted,    // a limit was reached
  kUnavailable,  // this build or device cannot do it
  kCancelled,    // the caller or the server stopped it
  kInternal,     // a device or library failed
};

// `text` is for a person: it names the fault and the remedy.
struct Error {
  Code code = Code::kInternal;
  std::string text;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

template <class... Args>
std::unexpected<Error> Fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace pie

// Stops the process on a bug of ours. No input may reach a failing PIE_CHECK.
#define PIE_CHECK(condition)                                                                 \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)

// Evaluates to the value of a Result, or returns its error from the enclosing function. The counter
// allows one PIE_TRY inside another.
#define PIE_TRY(expression) PIE_TRY_COUNTED(expression, __COUNTER__)
#define PIE_TRY_COUNTED(expression, counter) PIE_TRY_PASTED(expression, counter)
#define PIE_TRY_PASTED(expression, counter) PIE_TRY_NAMED(expression, pie_try_##counter)
#define PIE_TRY_NAMED(expression, name)              \
  ({                                                 \
    auto name = (expression);                        \
    if (!name) return std::unexpected(name.error()); \
    *std::move(name);                                \
  })
// Returns the error of a Status from the enclosing function.
#define PIE_RETURN_IF_ERROR(expression)                                                          \
  do {                                                                                           \
    if (auto pie_status = (expression); !pie_status) return std::unexpected(pie_status.error()); \
  } while (false)
