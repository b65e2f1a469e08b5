#include "backend/cuda/device/uploads.h"

#include <algorithm>
#include <cstring>

namespace pie::cuda {
namespace {

constexpr size_t kPieceBytes = size_t{32} << 20;
constexpr size_t kPieces = 4;
constexpr size_t kPartBytes = size_t{1} << 20;  // that one thread copies at a time
constexpr size_t kMostThreads = 16;

}  // namespace

Uploads::Uploads(Stream stream)
    : stream_(stream), team_("pie-upload", ThreadTeam::Size(kMostThreads)) {}

Uploads::~Uploads() {
  Synchronize(stream_);
  for (const Piece& piece : pieces_) {
    FreePinned(piece.data);
    DestroyEvent(piece.event);
  }
}

Uploads::Piece* Uploads::NextPiece() {
  if (pieces_.size() < kPieces && !plain_) {
    auto* const data = static_cast<std::byte*>(AllocatePinned(kPieceBytes));
    plain_ = data == nullptr;
    if (data != nullptr) {
      next_ = pieces_.size();
      pieces_.push_back({.data = data, .event = MakeEvent()});
    }
  }
  if (pieces_.empty()) return nullptr;
  Piece& piece = pieces_[next_];
  next_ = (next_ + 1) % pieces_.size();
  if (piece.waits) Synchronize(piece.event);
  return &piece;
}

void Uploads::Copy(void* to, std::span<const std::byte> from) {
  auto* out = static_cast<std::byte*>(to);
  while (!from.empty()) {
    const auto part = from.first(std::min(from.size(), kPieceBytes));
    Piece* const piece = NextPiece();
    if (piece == nullptr) {
      CopyIn(out, part.data(), part.size(), stream_);
      Synchronize(stream_);
    } else {
      team_.Run((part.size() + kPartBytes - 1) / kPartBytes, [&](size_t i) {
        const size_t first = i * kPartBytes;
        std::memcpy(piece->data + first, &part[first], std::min(kPartBytes, part.size() - first));
      });
      CopyIn(out, piece->data, part.size(), stream_);
      RecordEvent(piece->event, stream_);
      piece->waits = true;
    }
    out += part.size();
    from = from.subspan(part.size());
  }
}

}  // namespace pie::cuda
