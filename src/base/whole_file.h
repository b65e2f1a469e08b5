// Atomic files: after a crash or a power failure, a file is either complete or as it was before.
// Any thread; a write costs two flushes of the disk. A full disk is kExhausted, every other failure
// kInternal.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace pie {

// Writes a temporary file beside `path`, flushes it, renames it over `path` and flushes the folder.
// The folder must exist. After an error, the old file is unchanged.
Status WriteWhole(const std::string& path, std::string_view bytes, mode_t mode = 0644);

// Flushes a folder, so that files created, renamed or removed in it stay so after a power failure.
Status SyncFolder(const std::string& folder);

}  // namespace pie
