// pie:plus/chains: passes that follow one another without the guest.
#include <algorithm>

#include "host/api.h"
#include "host/execute.h"

namespace pie::host {
namespace {

// The context that a chain runs on, if it still does.
Context* ContextOf(Process& process, const RunningChain& chain) {
  const auto context = process.handles().contexts.Get(chain.context);
  const bool runs =
      context && (*context)->sequence() == chain.sequence && (*context)->runs(*chain.output);
  return runs ? *context : nullptr;
}

// Tells a chain's output of its end, also when the pass is destroyed without having run. Carries
// what the passes hold until then.
class Completion {
 public:
  Completion(std::shared_ptr<ChainOutput> output, Charge input)
      : output_(std::move(output)), input_(std::move(input)) {}
  Completion(Completion&&) noexcept = default;
  Completion& operator=(Completion&&) = delete;
  ~Completion() {
    if (output_) output_->Finish({});
  }
  void operator()(Result<std::vector<Slot>> result) {
    output_->Finish(result ? Status() : std::unexpected(std::move(result.error())));
    output_.reset();
  }

 private:
  std::shared_ptr<ChainOutput> output_;
  Charge input_;
};

std::unique_ptr<Chain> MakeChain(Process& process, uint32_t max_tokens,
                                 std::span<const uint32_t> stops, Context::Room room,
                                 std::shared_ptr<ChainOutput> output) {
  auto chain = std::make_unique<Chain>();
  chain->max_tokens = max_tokens;
  chain->stops.assign(stops.begin(), stops.end());
  std::ranges::sort(chain->stops);
  chain->give = [output = std::move(output), pace = process.pace()](uint32_t token,
                                                                    std::optional<Chain::End> end) {
    pace->OnTokens(SteadyClock::Get().NowNs());
    output->Give(token, end);
  };
  chain->admit = [room = std::move(room),
                  budget = process.options().token_budget]() mutable -> Status {
    if (room.passes == 0) return std::unexpected(room.error);
    --room.passes;
    return ChargeTokens(budget.get(), 1);
  };
  return chain;
}

// Token i is drawn as the i-th of passes that were made one by one would be.
void SeedChain(Process& process, const Pass& pass, Forward& forward, RunningChain& running) {
  Chain& chain = *forward.chain;
  if (pass.seeded) {
    chain.seed = [seed = forward.seed](uint32_t step) { return seed + step; };
    return;
  }
  running.draws_set_aside = chain.max_tokens;
  running.first_draw = process.SetDrawsAside(chain.max_tokens);
  chain.seed = [seeds = process.draw_seeds(), first = *running.first_draw](uint32_t step) {
    return seeds.Of(first + step);
  };
  forward.seed = chain.seed(0);
}

void ReturnDraws(Process& process, RunningChain& chain) {
  if (!chain.first_draw) return;
  const uint64_t used = std::max<uint64_t>(chain.taken, 1);
  process.ReturnDraws(*chain.first_draw, chain.draws_set_aside, used);
  chain.first_draw.reset();
}

}  // namespace

void EndChain(Process& process, RunningChain& chain) {
  if (Context* context = ContextOf(process, chain)) context->EndChain();
  ReturnDraws(process, chain);
}

Result<uint32_t> ChainsRun(Process& process, uint32_t pass, uint32_t max_tokens,
                           std::span<const uint32_t> stops) {
  Pass* open = PIE_TRY(OpenPass(process, pass));
  const BackendInfo& info = process.engine().models()[open->model].scheduler->info();
  PIE_RETURN_IF_ERROR(Validate(*open, info));
  Context* context = PIE_TRY(ContextOf(process, *open));
  Context::Room room = context->RoomBehind(open->forward);
  Charge charge = process.NewCharge();
  const uint64_t gathered = std::min<uint64_t>(max_tokens, room.passes + 1);
  if (!charge.Grow(sizeof(ChainOutput) + gathered * sizeof(uint32_t)) ||
      !open->charge.Grow(stops.size() * sizeof(uint32_t))) {
    return PassMemoryLimit(process);
  }
  RunningChain running{.context = open->context->handle, .sequence = context->sequence()};
  running.output = std::make_shared<ChainOutput>(std::move(charge), SteadyClock::Get());
  open->forward.chain = MakeChain(process, max_tokens, stops, std::move(room), running.output);
  PIE_RETURN_IF_ERROR(CheckChain(open->forward));
  PIE_RETURN_IF_ERROR(
      ChargeTokens(process.options().token_budget.get(), open->forward.tokens.size()));

  SeedChain(process, *open, open->forward, running);
  Forward forward = std::move(open->forward);
  forward.done = Completion(running.output, std::move(open->charge));
  open->executed = true;
  auto output = running.output;
  const uint32_t handle = PIE_TRY(process.handles().chains.Emplace(std::move(running)));
  if (Status queued = context->Run(std::move(forward), std::move(output)); !queued) {
    process.handles().chains.Remove(handle);
    return std::unexpected(std::move(queued.error()));
  }
  return handle;
}

Result<ChainsProgress> ChainTake(Process& process, uint32_t chain) {
  RunningChain& running = *PIE_TRY(process.handles().chains.Get(chain));
  Context* context = ContextOf(process, running);
  auto taken = context != nullptr ? context->Take() : running.output->Take();
  if (taken) running.taken += taken->tokens.size();
  if (!taken || taken->ended) ReturnDraws(process, running);
  if (!taken) return std::unexpected(std::move(taken.error()));
  ChainsProgress progress{.tokens = std::move(taken->tokens)};
  if (taken->ended) {
    progress.ended = taken->end == Chain::End::kStop    ? ChainsEnding::Stop
                     : taken->end == Chain::End::kLimit ? ChainsEnding::Limit
                                                        : ChainsEnding::Cancelled;
  }
  return progress;
}

Result<const pie_bridge::Signal*> ChainPollable(Process& process, uint32_t chain) {
  return PIE_TRY(process.handles().chains.Get(chain))->output->signal().raw();
}

Status ChainDrop(Process& process, uint32_t chain) {
  EndChain(process, *PIE_TRY(process.handles().chains.Get(chain)));
  process.handles().chains.Remove(chain);
  return {};
}

}  // namespace pie::host
