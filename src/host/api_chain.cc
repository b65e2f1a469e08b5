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

std::unique_ptr<Chain> MakeChain(uint32_t max_tokens, std::span<const uint32_t> stops) {
  auto chain = std::make_unique<Chain>();
  chain->max_tokens = max_tokens;
  chain->stops.assign(stops.begin(), stops.end());
  std::ranges::sort(chain->stops);
  return chain;
}

// Says where the chain's tokens go, and how many passes it may have.
void Connect(Process& process, Chain& chain, Context::Room room,
             std::shared_ptr<ChainOutput> output) {
  chain.give = [output = std::move(output), pace = process.pace()](uint32_t token,
                                                                   std::optional<Chain::End> end) {
    pace->OnTokens(SteadyClock::Get().NowNs());
    output->Give(token, end);
  };
  chain.admit = [room = std::move(room),
                 budget = process.options().token_budget]() mutable -> Status {
    if (room.passes == 0) return std::unexpected(room.error);
    --room.passes;
    return ChargeTokens(budget.get(), 1);
  };
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

// Queues a pass that carries a chain; the handle of the RunningChain.
Result<uint32_t> Start(Process& process, Pass& pass) {
  PIE_RETURN_IF_ERROR(Check(process, pass));
  Context* context = PIE_TRY(ContextOf(process, pass));
  Context::Room room = context->RoomBehind(pass.forward);
  const Chain& chain = *pass.forward.chain;
  Charge charge = process.NewCharge();
  const uint64_t gathered = std::min<uint64_t>(chain.max_tokens, room.passes + 1);
  if (!charge.Grow(sizeof(ChainOutput) + gathered * sizeof(uint32_t)) ||
      !pass.charge.Grow(chain.stops.size() * sizeof(uint32_t))) {
    return PassMemoryLimit(process);
  }
  PIE_RETURN_IF_ERROR(
      ChargeTokens(process.options().token_budget.get(), pass.forward.tokens.size()));

  RunningChain running{.context = pass.context->handle, .sequence = context->sequence()};
  auto output = std::make_shared<ChainOutput>(std::move(charge), SteadyClock::Get());
  running.output = output;
  Connect(process, *pass.forward.chain, std::move(room), output);
  SeedChain(process, pass, pass.forward, running);
  Forward forward = std::move(pass.forward);
  forward.done = Completion(output, std::move(pass.charge));
  pass.executed = true;
  const uint32_t handle = PIE_TRY(process.handles().chains.Emplace(std::move(running)));
  if (Status queued = context->Run(std::move(forward), std::move(output)); !queued) {
    process.handles().chains.Remove(handle);
    return std::unexpected(std::move(queued.error()));
  }
  return handle;
}

}  // namespace

void EndChain(Process& process, RunningChain& chain) {
  if (Context* context = ContextOf(process, chain)) context->EndChain();
  ReturnDraws(process, chain);
}

Result<uint32_t> ChainsRun(Process& process, uint32_t pass, uint32_t max_tokens,
                           std::span<const uint32_t> stops) {
  Pass* open = PIE_TRY(OpenPass(process, pass));
  if (!process.engine().models()[open->model].scheduler->chains_allowed()) {
    return Fail(Code::kUnavailable,
                "chains are switched off (chains = false in the configuration): run one pass at a "
                "time");
  }
  open->forward.chain = MakeChain(max_tokens, stops);
  auto started = Start(process, *open);
  if (!started) open->forward.chain.reset();  // the guest may still execute the pass alone
  return started;
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
