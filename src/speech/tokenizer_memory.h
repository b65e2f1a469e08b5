// Private to this folder.
#pragma once

#include <malloc.h>

namespace pie {

// Loading a tokenizer needs several times the memory that the tokenizer keeps. The allocator would
// hold on to the rest; this gives it back to the system.
inline void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace pie
