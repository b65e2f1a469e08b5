// Files that are read and written whole. Writes are atomic: after a crash or a power failure, a
// file is either complete or as it was before. Any thread; a write costs two flushes of the disk. A
// full disk is kExhausted, every other failure of a write kInternal.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pie {

// Writes a temporary file beside `path`, flushes it, renames it over `path` and flushes the folder.
// The folder must exist. After an error, the old file is unchanged.
Status WriteWhole(const std::string& path, std::string_view bytes, mode_t mode = 0644);

// Reads a file. A file that cannot be opened is kNotFound; one of more than `most` bytes is
// kExhausted.
Result<std::string> ReadWhole(const std::string& path, uint64_t most);

// Flushes a folder, so that files created, renamed or removed in it stay so after a power failure.
Status SyncFolder(const std::string& folder);

}  // namespace pie
