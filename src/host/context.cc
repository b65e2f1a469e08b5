#include "host/context.h"

namespace pie::host {

Status Context::CheckAlive() const {
  if (destroyed_) return Fail(Code::kInvalid, "this context was destroyed");
  return {};
}

Result<SequenceId> Context::Copy() const {
  PIE_RETURN_IF_ERROR(CheckAlive());
  return scheduler_->Fork(sequence_);
}

Result<std::unique_ptr<Context>> Context::Fork() const {
  SequenceId copy = PIE_TRY(Copy());
  return std::make_unique<Context>(scheduler_, model_, copy, extent_);
}

Status Context::Commit(uint32_t pages) {
  PIE_RETURN_IF_ERROR(CheckAlive());
  uint32_t full = extent_.working_tokens / page_tokens();
  if (pages > full) {
    return Fail(Code::kInvalid, "cannot commit {} working pages: {} are full", pages, full);
  }
  extent_.committed_pages += pages;
  extent_.working_pages -= pages;
  extent_.working_tokens -= pages * page_tokens();
  return {};
}

Status Context::Reserve(uint32_t pages) {
  PIE_RETURN_IF_ERROR(CheckAlive());
  uint64_t wanted = uint64_t{extent_.committed_pages} + extent_.working_pages + pages;
  if (wanted > scheduler_->info().total_pages) {
    return Fail(Code::kExhausted,
                "cannot reserve {} pages: the context would hold {}, the device has {}", pages,
                wanted, scheduler_->info().total_pages);
  }
  extent_.working_pages += pages;
  return {};
}

Status Context::Release(uint32_t pages) {
  PIE_RETURN_IF_ERROR(CheckAlive());
  if (pages > extent_.working_pages) {
    return Fail(Code::kInvalid, "cannot release {} working pages: the context has {}", pages,
                extent_.working_pages);
  }
  extent_.working_pages -= pages;
  uint32_t room = extent_.working_pages * page_tokens();
  if (extent_.working_tokens > room) {
    extent_.working_tokens = room;
    scheduler_->Truncate(sequence_, this->tokens());
  }
  return {};
}

Status Context::Truncate(uint32_t count) {
  PIE_RETURN_IF_ERROR(CheckAlive());
  if (count > extent_.working_tokens) {
    return Fail(Code::kInvalid,
                "cannot truncate {} tokens: the working pages hold {}; committed pages stay", count,
                extent_.working_tokens);
  }
  if (count == 0) return {};
  extent_.working_tokens -= count;
  scheduler_->Truncate(sequence_, tokens());
  return {};
}

void Context::Destroy() {
  if (destroyed_) return;
  destroyed_ = true;
  scheduler_->Drop(sequence_);
}

Status Context::Execute(Forward forward) {
  PIE_RETURN_IF_ERROR(CheckAlive());
  const auto count = static_cast<uint32_t>(forward.tokens.size());
  const uint64_t room = uint64_t{extent_.working_pages} * page_tokens();
  if (uint64_t{extent_.working_tokens} + count > room) {
    return Fail(
        Code::kInvalid,
        "{} tokens do not fit the working pages: {} of {} places are free; reserve pages first",
        count, room - extent_.working_tokens, room);
  }
  const uint64_t length = uint64_t{tokens()} + count;
  if (length > scheduler_->info().max_positions) {
    return Fail(Code::kExhausted, "the context would be {} tokens long; this model allows {}",
                length, scheduler_->info().max_positions);
  }
  extent_.working_tokens += count;
  forward.sequence = sequence_;
  scheduler_->Execute(std::move(forward));
  return {};
}

}  // namespace pie::host
