// ReturnFreedMemory, for the sources of this folder that load tokenizers.
#pragma once

#include <malloc.h>

namespace pie {

// Gives free memory back to the system. Loading a tokenizer needs several times the memory that the
// tokenizer keeps, and the allocator would hold on to the rest.
inline void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace pie
