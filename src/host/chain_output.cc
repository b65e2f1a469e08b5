#include "host/chain_output.h"

#include <utility>

namespace pie::host {

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
  if (woken_ && !ended_) {
    woken_ = false;
    signal_.Clear();
  }
  return taken;
}

void ChainOutput::Cancel() {
  const std::lock_guard lock(mutex_);
  tokens_.clear();
  end_.reset();
  status_ = {};
  ended_ = true;
  if (!woken_) Wake();
}

}  // namespace pie::host
