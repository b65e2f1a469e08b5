#include "host/chain_output.h"

#include <algorithm>
#include <utility>

namespace pie::host {

Status ChainOutput::Admit(uint32_t tokens) {
  const std::lock_guard lock(mutex_);
  if (ended_ || rows_.Grow(tokens * row_bytes_)) return {};
  return Fail(Code::kExhausted,
              "memory limit: the engine keeps all tokens of your contexts, and has no room for the "
              "next one of this chain; truncate or drop some contexts");
}

void ChainOutput::Give(uint32_t token, std::optional<Chain::End> end) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  tokens_.push_back(token);
  if (end) {
    ended_ = true;
    end_ = end;
  }
  if (woken_) return;
  if (!any_ || ended_ || tokens_.size() >= kWakeTokens || clock_.NowNs() - woken_ns_ >= kWakeNs) {
    Wake();
  }
}

void ChainOutput::Finish(Status status) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  ended_ = true;
  status_ = std::move(status);
  if (!woken_) Wake();
}

void ChainOutput::Wake() {
  any_ = woken_ = true;
  woken_ns_ = clock_.NowNs();
  signal_.Fire();
}

Result<ChainOutput::Taken> ChainOutput::Take() {
  const std::lock_guard lock(mutex_);
  Taken taken{.tokens = std::exchange(tokens_, {})};
  // The guest takes the tokens before the error first.
  if (!status_ && taken.tokens.empty()) return std::unexpected(status_.error());
  taken.ended = ended_ && status_;
  taken.end = end_;
  // The context pays for the rows of tokens that were taken.
  const size_t paid = taken.tokens.size() * row_bytes_;
  rows_.Resize(ended_ ? 0 : rows_.bytes() - std::min(paid, rows_.bytes()));
  if (woken_ && !ended_) {
    woken_ = false;
    signal_.Clear();
  }
  return taken;
}

void ChainOutput::Cancel() {
  const std::lock_guard lock(mutex_);
  tokens_.clear();
  rows_.Release();
  end_.reset();
  status_ = {};
  ended_ = true;
  if (!woken_) Wake();
}

}  // namespace pie::host
