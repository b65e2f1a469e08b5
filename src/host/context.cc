#include "host/context.h"

#include <algorithm>
#include <utility>

#include "sched/pass.h"

namespace pie::host {
namespace {

Error CannotReserve(uint64_t pages, uint64_t wanted, const BackendInfo& info) {
  return {Code::kExhausted,
          fmt::format("cannot reserve {} pages: the context would hold {}, the device has {}",
                      pages, wanted, info.total_pages)};
}

}  // namespace

Status Context::CheckAlive() const {
  if (destroyed_) return Fail(Code::kInvalid, "this context was destroyed");
  return CountDrafts();
}

Status Context::CountDrafts() const {
  if (!verdict_) return {};
  if (!verdict_->ready.load(std::memory_order_acquire)) {
    return Fail(Code::kInvalid,
                "a pass with draft tokens runs on this context: wait for its output first");
  }
  extent_.working_tokens += verdict_->kept;
  verdict_.reset();
  return {};
}

Result<SequenceId> Context::Copy() const {
  PIE_RETURN_IF_ERROR(CheckAlive());
  EndChain();
  return scheduler_->Fork(sequence_);
}

Result<std::unique_ptr<Context>> Context::Fork() const {
  Charge masks = masks_.Same();
  if (!masks.Grow(masks_.bytes())) {
    return Fail(Code::kExhausted, "memory limit: the context has attention masks of {} MiB",
                masks_.bytes() >> 20);
  }
  SequenceId copy = PIE_TRY(Copy());
  auto fork = std::make_unique<Context>(scheduler_, model_, copy, extent_);
  fork->rows_ = rows_.Fork();
  fork->masks_ = std::move(masks);
  fork->masked_rows_ = masked_rows_;
  fork->opened_ = opened_;
  fork->stored_bytes_ = stored_bytes_;
  return fork;
}

void Context::KeepMasks(Charge masks, std::span<const size_t> bytes) {
  if (bytes.empty()) return;
  masks_.Absorb(std::move(masks));
  const auto first = tokens() - static_cast<uint32_t>(bytes.size());
  for (uint32_t i = 0; i < bytes.size(); ++i) masked_rows_.push_back({first + i, bytes[i]});
}

void Context::ForgetRows() {
  rows_.Cut(PagesOf(tokens()));
  size_t left = masks_.bytes();
  while (!masked_rows_.empty() && masked_rows_.back().row >= tokens()) {
    left -= masked_rows_.back().bytes;
    masked_rows_.pop_back();
  }
  masks_.Resize(left);
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
  const BackendInfo& info = scheduler_->info();
  if (wanted > info.total_pages) return std::unexpected(CannotReserve(pages, wanted, info));
  extent_.working_pages += pages;
  return {};
}

Status Context::Release(uint32_t pages) {
  PIE_RETURN_IF_ERROR(CheckAlive());
  if (pages > extent_.working_pages) {
    return Fail(Code::kInvalid, "cannot release {} working pages: the context has {}", pages,
                extent_.working_pages);
  }
  EndChain();
  extent_.working_pages -= pages;
  uint32_t room = extent_.working_pages * page_tokens();
  if (extent_.working_tokens > room) {
    extent_.working_tokens = room;
    scheduler_->Truncate(sequence_, this->tokens());
    ForgetRows();
  }
  return {};
}

Status Context::Truncate(uint32_t count) {
  PIE_RETURN_IF_ERROR(CheckAlive());
  if (count > tokens()) {
    return Fail(Code::kInvalid, "cannot truncate {} tokens: the context holds {}", count, tokens());
  }
  if (count == 0) return {};
  EndChain();
  const uint32_t left = tokens() - count;
  // Committed pages that the cut reaches become working pages again. Before the sequence writes to
  // such a page, it copies the rows that it keeps, so pages that others share do not change.
  const uint32_t committed = std::min(extent_.committed_pages, left / page_tokens());
  extent_.working_pages += extent_.committed_pages - committed;
  extent_.committed_pages = committed;
  extent_.working_tokens = left - committed * page_tokens();
  scheduler_->Truncate(sequence_, left);
  ForgetRows();
  return {};
}

Status Context::Suspend() {
  PIE_RETURN_IF_ERROR(CheckAlive());
  EndChain();
  scheduler_->Suspend(sequence_);
  return {};
}

void Context::Destroy() {
  if (destroyed_) return;
  destroyed_ = true;
  if (chain_) std::exchange(chain_, nullptr)->Cancel();
  // The scheduler keeps the sequence while forks wait for what it is to do.
  std::shared_ptr<const Charge> held;
  if (charge_.bytes() > 0) held = std::make_shared<const Charge>(std::move(charge_));
  scheduler_->Drop(sequence_, std::move(held));
  rows_.Release();
  masks_.Release();
  opened_.reset();
}

void Context::Bid(double credits) {
  bids_.fixed = credits;
  scheduler_->Bid(sequence_, bids_);
}

void Context::Expect(std::optional<double> steps, double variation) {
  bids_.fixed.reset();
  bids_.expected.reset();
  if (steps) bids_.expected = {.steps = *steps, .variation = variation};
  ++bids_.number;
  scheduler_->Bid(sequence_, bids_);
}

void Context::SetIdle(bool idle) {
  bids_.idle = idle;
  scheduler_->Bid(sequence_, bids_);
}

Status Context::Execute(Forward forward) {
  const auto count = static_cast<uint32_t>(forward.tokens.size());
  return Queue(std::move(forward), count, count);
}

Status Context::ExecuteDrafts(Forward forward, std::shared_ptr<const DraftVerdict> verdict) {
  const auto count = static_cast<uint32_t>(forward.tokens.size());
  const uint32_t own = count - forward.drafts;
  PIE_RETURN_IF_ERROR(Queue(std::move(forward), own, count));
  verdict_ = std::move(verdict);
  return {};
}

Status Context::Run(Forward forward, uint32_t own, std::shared_ptr<ChainOutput> output) {
  PIE_RETURN_IF_ERROR(Queue(std::move(forward), own, own));
  chain_ = std::move(output);
  first_taken_ = false;
  return {};
}

Status Context::Queue(Forward forward, uint32_t own, uint32_t room) {
  PIE_RETURN_IF_ERROR(CheckAlive());
  if (forward.repeats_last) {  // the repeated row is counted already
    --own;
    --room;
  }
  const uint64_t places = uint64_t{extent_.working_pages} * page_tokens();
  if (uint64_t{extent_.working_tokens} + room > places) {
    return Fail(
        Code::kInvalid,
        "{} tokens do not fit the working pages: {} of {} places are free; reserve pages first",
        room, places - extent_.working_tokens, places);
  }
  PIE_RETURN_IF_ERROR(CheckLength(uint64_t{tokens()} + room, scheduler_->info()));
  PIE_RETURN_IF_ERROR(CoverRows(uint64_t{tokens()} + room));
  EndChain();
  extent_.working_tokens += own;
  forward.sequence = sequence_;
  forward.bid = std::exchange(next_bid_, std::nullopt);
  forward.cached_tokens = cached_tokens_;
  scheduler_->Execute(std::move(forward));
  return {};
}

Status Context::CoverRows(uint64_t tokens) {
  if (rows_.Cover(PagesOf(tokens))) return {};
  return Fail(Code::kExhausted,
              "memory limit: the engine keeps all tokens of your contexts, and has no room for {} "
              "tokens of this one; truncate or drop some contexts",
              tokens);
}

Context::Room Context::RoomBehind(const Forward& forward) const {
  const BackendInfo& info = scheduler_->info();
  const uint64_t length =
      uint64_t{tokens()} + forward.tokens.size() - (forward.repeats_last ? 1 : 0);
  const uint64_t pages = info.total_pages;
  const auto left = [](uint64_t limit, uint64_t used) { return limit > used ? limit - used : 0; };
  // The limits are in the order in which a loop of passes would meet them: it reserves, then
  // executes.
  const Room rooms[] = {
      {left(pages * page_tokens(), length), CannotReserve(1, pages + 1, info)},
      {left(info.max_positions - 1, forward.positions.back()),
       CheckPosition(info.max_positions, info).error()},
      {left(info.max_positions, length),
       CheckLength(uint64_t{info.max_positions} + 1, info).error()},
  };
  return *std::ranges::min_element(rooms, {}, &Room::passes);
}

Result<ChainOutput::Taken> Context::Take() {
  auto taken = chain_->Take();
  if (!taken) {
    chain_.reset();
    return taken;
  }
  for (size_t i = 0; i < taken->tokens.size(); ++i) CountPass(std::exchange(first_taken_, true));
  if (taken->ended) chain_.reset();
  // The output no longer pays for these tokens.
  if (Status covered = CoverRows(tokens()); !covered) {
    EndChain();
    return std::unexpected(std::move(covered.error()));
  }
  return taken;
}

// Updates the pages after a pass fed `tokens` tokens, as a loop would: pages are reserved before
// and committed after.
void Context::CountPass(uint32_t tokens) {
  const uint32_t after = extent_.working_tokens + tokens;
  extent_.working_pages =
      std::max(extent_.working_pages, (after + page_tokens() - 1) / page_tokens());
  extent_.working_tokens = after;
  const uint32_t full = after / page_tokens();
  extent_.committed_pages += full;
  extent_.working_pages -= full;
  extent_.working_tokens -= full * page_tokens();
}

void Context::EndChain() const {
  if (!chain_) return;
  std::exchange(chain_, nullptr)->Cancel();
  scheduler_->Truncate(sequence_, tokens());
}

}  // namespace pie::host
