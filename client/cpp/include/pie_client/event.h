// An event of a process.
#pragma once

#include <string>

namespace pie_client {

// One event: its kind, and a text or the bytes of a file.
struct Event {
  // What happened.
  enum class Kind {
    kStdout,  // text that the process printed, or sent with session.send
    kStderr,
    kMessage,
    kFile,    // `value` holds the bytes of a file
    kReturn,  // the last event of a process that succeeded; `value` is its return value
    kError,   // the last event of a process that failed
  };
  // What happened.
  Kind kind = Kind::kStdout;
  // The text of the event, or the bytes of a file.
  std::string value;

  // Whether the process has ended: no event follows.
  bool is_last() const { return kind == Kind::kReturn || kind == Kind::kError; }
};

}  // namespace pie_client
