// The engine around this inferlet, and other inferlets that it starts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/result.h"
#include "inferlet/task.h"

namespace inferlet::runtime {

// Names of every model the engine has loaded, the default one first.
std::vector<std::string> Models();
// The engine's version.
std::string Version();
// The id of this running inferlet.
std::string InstanceId();
// The user who launched it.
std::string Username();

// A launched inferlet. A handle: when the last copy is gone, the child runs on by itself.
class Child {
 public:
  explicit Child(pie::core::runtime::Child raw);

  // The id of the child's process.
  std::string Pid() const;
  // None while it runs; then what it returned, or its error.
  std::optional<Result<std::string>> Get() const;
  // Waits for the child's end.
  Task<Result<std::string>> Wait() const;
  // Ends the child. Wait then returns an error.
  void Cancel() const;

 private:
  std::shared_ptr<pie::core::runtime::Child> raw_;
};

// Starts another inferlet (`name` or `name@X.Y.Z`) with a JSON input, as the same user.
Result<Child> Launch(std::string_view program, std::string_view input);

}  // namespace inferlet::runtime
