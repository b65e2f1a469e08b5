// Flags: options as on a command line, for inferlets whose input is a list of arguments.
//
//   Flags flags(PIE_TRY(input.Get<std::vector<std::string>>("args")));
//   const auto n = PIE_TRY(flags.Get("--n", 4));           // `--n 8` or `--n=8`; 4 without it
//   const bool verbose = flags.Has("--verbose");
//   PIE_TRY(flags.CheckAllUsed());                         // fails if an argument is left
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "inferlet/result.h"

namespace inferlet {

// A list of arguments. Each call that finds its flag removes the flag from the list.
class Flags {
 public:
  // Takes the arguments as a command line would split them.
  explicit Flags(std::vector<std::string> arguments) : left_(std::move(arguments)) {}

  // Whether a flag without a value is there.
  bool Has(std::string_view name) {
    const auto found = std::ranges::find(left_, name);
    if (found == left_.end()) return false;
    left_.erase(found);
    return true;
  }

  // Returns the value of a flag: a number or a text. Fails if the flag is missing or its value has
  // another type.
  template <class T>
  Result<T> Get(std::string_view name) {
    Result<std::string> text = Take(name);
    if (!text) return Error(std::move(text).error());
    return Read<T>(name, *text);
  }
  // Returns the value of a flag, or `fallback` if the flag is missing.
  template <class T>
  Result<T> Get(std::string_view name, T fallback) {
    Result<std::string> text = Take(name);
    if (!text)
      return text.error().ends_with(kMissing) ? Result<T>(std::move(fallback))
                                              : Error(std::move(text).error());
    return Read<T>(name, *text);
  }
  Result<std::string> Get(std::string_view name, const char* fallback) {
    return Get<std::string>(name, fallback);
  }

  // The arguments that no call has asked for.
  const std::vector<std::string>& Left() const { return left_; }
  // Fails if there are arguments that no call has asked for, and names the first of them.
  Result<void> CheckAllUsed() const {
    if (left_.empty()) return {};
    return Error("unknown argument " + left_.front());
  }

 private:
  static constexpr std::string_view kMissing = " is missing";

  Result<std::string> Take(std::string_view name) {
    for (auto at = left_.begin(); at != left_.end(); ++at) {
      const std::string_view argument = *at;
      if (argument == name) {
        if (at + 1 == left_.end()) return Error(std::string(name) + " needs a value");
        std::string value = *(at + 1);
        left_.erase(at, at + 2);
        return value;
      }
      if (argument.starts_with(name) && argument.substr(name.size()).starts_with('=')) {
        std::string value(argument.substr(name.size() + 1));
        left_.erase(at);
        return value;
      }
    }
    return Error(std::string(name) + std::string(kMissing));
  }

  template <class T>
  static Result<T> Read(std::string_view name, const std::string& text) {
    if constexpr (std::same_as<T, std::string>) {
      return text;
    } else {
      static_assert(std::is_arithmetic_v<T>, "a flag is a number or a std::string");
      T value{};
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error == std::errc() && end == text.data() + text.size()) return value;
      return Error(std::string(name) + " is a number, not '" + text + "'");
    }
  }

  std::vector<std::string> left_;
};

}  // namespace inferlet
