// What a process can say.
#pragma once

#include <string>

namespace pie_client {

struct Event {
  enum class Kind {
    kStdout,  // what was printed, or sent by session.send
    kStderr,
    kMessage,
    kFile,    // `value` is its bytes
    kReturn,  // the last one of a process that ended well: what its main returned
    kError,   // the last one of a process that did not
  };
  Kind kind = Kind::kStdout;
  std::string value;

  bool is_last() const { return kind == Kind::kReturn || kind == Kind::kError; }
};

}  // namespace pie_client
