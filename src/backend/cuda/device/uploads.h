// Uploads: copies weights into the device while the next ones are read and converted.
//
// The bytes go to pinned memory, piece by piece, by all processors, and from there to the
// device by itself. A call returns when its source may be used again; it waits for the device only
// when all pieces are on their way. Without memory to pin, copies are plain and slower.
//
// Owner: the thread that loads a model.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/cuda/kernels/runtime.h"
#include "base/thread_team.h"

namespace pie::cuda {

class Uploads {
 public:
  explicit Uploads(Stream stream);
  ~Uploads();  // waits for all copies
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  void Copy(void* to, std::span<const std::byte> from);

 private:
  struct Piece {
    std::byte* data = nullptr;  // pinned
    Event event = nullptr;      // the device has read it
    bool waits = false;         // for the event
  };
  // A piece that may be written to. Null: no memory can be pinned.
  Piece* NextPiece();

  const Stream stream_;
  ThreadTeam team_;
  std::vector<Piece> pieces_;
  size_t next_ = 0;
  bool plain_ = false;
};

}  // namespace pie::cuda
