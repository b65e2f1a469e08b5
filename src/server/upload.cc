#include "server/upload.h"

#include "host/hash.h"

namespace pie::server {

bool Uploads::Ignored(const std::string& key, const Chunk& chunk) {
  auto found = uploads_.find(key);
  if (found == uploads_.end() || !found->second.failed || chunk.index == 0) return false;
  // The last chunk ends the upload. A client that sends further chunks gets an error again.
  if (chunk.index + 1 >= chunk.total) uploads_.erase(found);
  return true;
}

Result<std::optional<Uploads::Whole>> Uploads::Add(const std::string& key, const Chunk& chunk,
                                                   size_t max_bytes) {
  if (chunk.index == 0) uploads_.erase(key);  // the upload starts again
  if (!uploads_.contains(key) && uploads_.size() >= limits_.max_uploads_per_connection) {
    // Failed uploads make room for new ones.
    if (std::erase_if(uploads_, [](const auto& entry) { return entry.second.failed; }) == 0) {
      return Fail(Code::kExhausted, "{} uploads are in flight on this connection; finish one first",
                  uploads_.size());
    }
  }
  Upload& upload = uploads_[key];
  if (Status added = AddTo(upload, chunk, max_bytes); !added) {
    upload = Upload{.failed = true};
    if (chunk.index + 1 >= chunk.total) uploads_.erase(key);
    return std::unexpected(added.error());
  }
  if (upload.next < upload.total) return std::nullopt;
  std::optional<Whole> whole(std::in_place, std::move(upload.bytes), std::move(upload.charge));
  uploads_.erase(key);
  return whole;
}

Status Uploads::AddTo(Upload& upload, const Chunk& chunk, size_t max_bytes) {
  if (chunk.total == 0 || chunk.index >= chunk.total) {
    return Fail(Code::kInvalid, "chunk {} of {} is out of range", chunk.index, chunk.total);
  }
  if (upload.total == 0) {
    upload.total = chunk.total;
    upload.charge = host::Charge(budget_);
  }
  if (chunk.total != upload.total) {
    return Fail(Code::kInvalid, "the number of chunks changed from {} to {}", upload.total,
                chunk.total);
  }
  if (chunk.index != upload.next) {
    return Fail(Code::kInvalid, "received chunk {}, expected chunk {}", chunk.index, upload.next);
  }
  const size_t size = upload.bytes.size() + chunk.data.size();
  // All chunks but the last have the same size, so the first one tells the minimum size of the
  // whole.
  const size_t least = size_t{chunk.total - 1} * (chunk.index == 0 ? chunk.data.size() : 0);
  if (size > max_bytes || least > max_bytes) {
    return Fail(Code::kExhausted, "an upload may have at most {} MiB; this one would have {}",
                max_bytes >> 20, std::max(size, least) >> 20);
  }
  if (!upload.charge.Grow(chunk.data.size())) {
    return Fail(
        Code::kExhausted,
        "your uploads in flight have {} MiB, and those of all users {} of {} MiB; try again "
        "later",
        budget_->used() >> 20, budget_->whole().used() >> 20, budget_->whole().limit() >> 20);
  }
  upload.bytes.append(chunk.data);
  ++upload.next;
  return {};
}

Status CheckHash(std::string_view bytes, std::string_view hash) {
  if (host::Blake3Hex(bytes) == hash) return {};
  return Fail(Code::kInvalid, "the {} bytes received do not have the hash '{}': send them again",
              bytes.size(), hash.substr(0, 64));
}

}  // namespace pie::server
