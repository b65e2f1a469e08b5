// The memory that this process may use: the machine's, or less where a control group of Linux
// limits it, as containers and systemd units do. Any thread may ask. Each call reads a few small
// files.
#pragma once

#include <cstdint>
#include <string>

namespace pie {

struct MemoryLimit {
  uint64_t machine = 0;  // bytes of the machine
  uint64_t group = 0;    // the least limit of the process's control groups; 0: they have none
  uint64_t bytes() const { return group != 0 && group < machine ? group : machine; }
};

// Reads the limits now. `root` is the folder that holds proc/ and sys/; tests have one of their
// own. Files that are missing or malformed set no limit. Both versions of control groups are
// understood.
MemoryLimit ReadMemoryLimit(const std::string& root = "");

}  // namespace pie
