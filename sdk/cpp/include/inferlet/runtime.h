// Information about the engine, and functions to launch other inferlets.
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

// Returns the names of all models that the engine has loaded, the default one first.
std::vector<std::string> Models();
// Returns the engine's version.
std::string Version();
// Returns the id of this running inferlet.
std::string InstanceId();
// Returns the name of the user who launched this inferlet.
std::string Username();

// A launched inferlet. It is a handle. When the last copy is destroyed, the child is detached: it
// runs on, also after this inferlet has ended.
class Child {
 public:
  explicit Child(pie::core::runtime::Child raw);

  // The id of the child's process.
  std::string Pid() const;
  // Returns none while the child runs, then its return value or its error.
  std::optional<Result<std::string>> Get() const;
  // Waits for the child's end.
  Task<Result<std::string>> Wait() const;
  // Ends the child. Wait then returns an error.
  void Cancel() const;

 private:
  std::shared_ptr<pie::core::runtime::Child> raw_;
};

// Launches another inferlet (`name` or `name@X.Y.Z`) with a JSON input, as the same user.
Result<Child> Launch(std::string_view program, std::string_view input);

}  // namespace inferlet::runtime
