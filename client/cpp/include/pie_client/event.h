// An event of a process.
#pragma once

#include <string>

namespace pie_client {

struct Event {
  enum class Kind {
    kStdout,  // text that the process printed, or sent with session.send
    kStderr,
    kMessage,
    kFile,    // `value` holds the bytes of a file
    kReturn,  // the last event of a process that succeeded; `value` is its return value
    kError,   // the last event of a process that failed
  };
  Kind kind = Kind::kStdout;
  std::string value;

  bool is_last() const { return kind == Kind::kReturn || kind == Kind::kError; }
};

}  // namespace pie_client
