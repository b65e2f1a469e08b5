// What makes one print one event of the client. PIE_MAIN and PIE_HTTP use it.
//
// stdio writes what is buffered and what is new as two pieces, and the adapter under it makes an
// event of each.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

namespace inferlet::detail {

// writev, but by one write.
ssize_t WriteTogether(int file, const iovec* pieces, int count);

}  // namespace inferlet::detail

// Takes the place of the C library's writev. It stands in the program's own object file, which the
// linker sees before the C library.
#define PIE_PRINT_WHOLE_                                                              \
  extern "C" [[gnu::used]] ssize_t writev(int file, const iovec* pieces, int count) { \
    return ::inferlet::detail::WriteTogether(file, pieces, count);                    \
  }
