#include "server/upload.h"

#include "host/hash.h"

namespace pie::server {

bool Uploads::Ignored(const std::string& key, const Chunk& chunk) {
  auto found = uploads_.find(key);
  if (found == uploads_.end() || !found->second.failed || chunk.index == 0) return false;
  // Its last chunk ends it; whoever sends others is told again.
  if (chunk.index + 1 >= chunk.total) uploads_.erase(found);
  return true;
}

Result<std::optional<std::string>> Uploads::Add(const std::string& key, const Chunk& chunk,
                                                size_t max_bytes) {
  if (chunk.index == 0) uploads_.erase(key);  // it begins again
  if (!uploads_.contains(key) && uploads_.size() >= limits_.max_uploads_a_connection) {
    // One that failed gives way.
    if (std::erase_if(uploads_, [](const auto& entry) { return entry.second.failed; }) == 0) {
      return Fail(Code::kExhausted, "{} uploads are under way on this connection; finish one first",
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
  std::string whole = std::move(upload.bytes);
  uploads_.erase(key);
  if (host::Blake3Hex(whole) != chunk.hash) {
    return Fail(Code::kInvalid, "the {} bytes that came do not have the hash '{}': send them again",
                whole.size(), chunk.hash.substr(0, 64));
  }
  return whole;
}

Status Uploads::AddTo(Upload& upload, const Chunk& chunk, size_t max_bytes) {
  if (chunk.total == 0 || chunk.index >= chunk.total) {
    return Fail(Code::kInvalid, "chunk {} of {} makes no sense", chunk.index, chunk.total);
  }
  if (upload.total == 0) {
    upload.total = chunk.total;
    upload.charge = host::Charge(budget_);
  }
  if (chunk.total != upload.total) {
    return Fail(Code::kInvalid, "this upload had {} chunks, now it has {}", upload.total,
                chunk.total);
  }
  if (chunk.index != upload.next) {
    return Fail(Code::kInvalid, "chunk {} came where chunk {} was expected", chunk.index,
                upload.next);
  }
  const size_t size = upload.bytes.size() + chunk.data.size();
  // Chunks have a size of their own, so their number tells what is to come.
  const size_t least = size_t{chunk.total - 1} * (chunk.index == 0 ? chunk.data.size() : 0);
  if (size > max_bytes || least > max_bytes) {
    return Fail(Code::kExhausted, "an upload has at most {} MiB, this one would have {}",
                max_bytes >> 20, std::max(size, least) >> 20);
  }
  if (!upload.charge.Grow(chunk.data.size())) {
    return Fail(Code::kExhausted, "uploads of all clients hold {} MiB; try again later",
                budget_->used() >> 20);
  }
  upload.bytes.append(chunk.data);
  ++upload.next;
  return {};
}

}  // namespace pie::server
