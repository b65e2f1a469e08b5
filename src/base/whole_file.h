// Files that are there whole or not at all, whenever the machine stops. Any thread; costs two
// flushes of the disk. A disk that is full is kExhausted, all else kInternal.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace pie {

// Writes aside, flushes, renames over what is there, and flushes the folder. The folder must be
// there. After an error the old file is still there.
Status WriteWhole(const std::string& path, std::string_view bytes, mode_t mode = 0644);

// What was made, renamed or removed in this folder stays so.
Status SyncFolder(const std::string& folder);

}  // namespace pie
