// pie:plus/chains: passes that follow one another without the guest.
#include <algorithm>

#include "host/api.h"
#include "host/execute.h"
#include "sched/forced_tokens.h"

namespace pie::host {
namespace {

constexpr size_t kMostStops = 65'536;  // of a chain; they are sorted

// Returns the context that the chain runs on, or null if the chain does not run any more.
Context* ContextOf(Process& process, const RunningChain& chain) {
  const auto context = process.handles().contexts.Get(chain.context);
  const bool runs =
      context && (*context)->sequence() == chain.sequence && (*context)->runs(*chain.output);
  return runs ? *context : nullptr;
}

// Tells a chain's output that the chain has ended, also when the pass is destroyed without having
// run. Until then it holds the charges for the passes' memory and for their number.
class Completion {
 public:
  Completion(std::shared_ptr<ChainOutput> output, Charge input, Charge counted)
      : output_(std::move(output)), input_(std::move(input)), counted_(std::move(counted)) {}
  Completion(Completion&&) noexcept = default;
  Completion& operator=(Completion&&) = delete;
  ~Completion() {
    if (output_) output_->Finish({});
  }
  void operator()(Result<std::vector<Slot>> result) {
    counted_.Release();  // before the guest may run the next one
    output_->Finish(result ? Status() : std::unexpected(std::move(result.error())));
    output_.reset();
  }

 private:
  std::shared_ptr<ChainOutput> output_;
  Charge input_, counted_;
};

std::unique_ptr<Chain> MakeChain(uint32_t max_tokens, std::span<const uint32_t> stops) {
  auto chain = std::make_unique<Chain>();
  chain->max_tokens = max_tokens;
  chain->stops.assign(stops.begin(), stops.end());
  std::ranges::sort(chain->stops);
  return chain;
}

// Connects the chain to its output, to the token budget, and to the room that the context has.
void Connect(Process& process, Chain& chain, Context::Room room,
             std::shared_ptr<ChainOutput> output) {
  chain.admit = [budget = process.options().token_budget, output](uint32_t tokens) -> Status {
    PIE_RETURN_IF_ERROR(ChargeTokens(budget.get(), tokens));
    return output->Admit(tokens);
  };
  chain.give = [output = std::move(output), pace = process.pace()](uint32_t token,
                                                                   std::optional<Chain::End> end) {
    pace->OnTokens(SteadyClock::Get().NowNs());
    output->Give(token, end);
  };
  chain.room = room.passes;
  chain.no_room = std::move(room.error);
}

// Gives out the tokens that the grammar forces at the beginning of the text, and adds them to the
// input. Then adds drafts.
Status AddTokensAhead(Process& process, Pass& pass) {
  Forward& forward = pass.forward;
  Chain& chain = *forward.chain;
  const auto row = static_cast<uint32_t>(forward.tokens.size()) - 1;
  if (forward.rules) {
    for (const uint32_t token : PIE_TRY(GiveForced(chain, *forward.rules, 0, 0))) {
      forward.tokens.push_back(token);
      forward.positions.push_back(forward.positions.back() + 1);
      ++chain.given;
    }
    forward.samples[0].rows[0] += chain.given;
    chain.room -= chain.given;
  }
  if (chain.given > 0 && !pass.drafts.empty()) {
    return Fail(Code::kInvalid,
                "the grammar forces the first tokens of the text: give no draft tokens there");
  }
  return AddDrafts(process, pass, chain.given, chain.given > 0 ? 0 : row);
}

// Token i is drawn with the seed that pass i of a loop of single passes would have.
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

ChainsEnding EndingOf(std::optional<Chain::End> end) {
  if (!end) return ChainsEnding::Cancelled;
  switch (*end) {
    case Chain::End::kStop:
      return ChainsEnding::Stop;
    case Chain::End::kLimit:
      return ChainsEnding::Limit;
    case Chain::End::kComplete:
      break;
  }
  return ChainsEnding::Complete;
}

void ReturnDraws(Process& process, RunningChain& chain) {
  if (!chain.first_draw) return;
  const uint64_t used = std::max<uint64_t>(chain.taken, 1);
  process.ReturnDraws(*chain.first_draw, chain.draws_set_aside, used);
  chain.first_draw.reset();
}

// Queues a pass that carries a chain. Returns the handle of the RunningChain.
Result<uint32_t> Start(Process& process, Pass& pass) {
  ReadLastRow(process, pass);
  PIE_RETURN_IF_ERROR(Check(process, pass));
  Context* context = PIE_TRY(ContextOf(process, pass));
  Context::Room room = context->RoomBehind(pass.forward);
  const Chain& chain = *pass.forward.chain;
  Charge counted = PIE_TRY(CountPass(process));
  Charge charge = process.NewCharge();
  const uint64_t gathered = std::min<uint64_t>(chain.max_tokens, room.passes + 1);
  if (!charge.Grow(sizeof(ChainOutput) + gathered * sizeof(uint32_t)) ||
      !pass.charge.Grow(chain.stops.size() * sizeof(uint32_t))) {
    return PassMemoryLimit(process);
  }
  PIE_RETURN_IF_ERROR(
      ChargeTokens(process.options().token_budget.get(), pass.forward.tokens.size()));

  RunningChain running{.context = pass.context->handle, .sequence = context->sequence()};
  const uint32_t page_tokens = context->page_tokens();
  auto output = std::make_shared<ChainOutput>(
      std::move(charge), PageRowBytes(page_tokens) / page_tokens, SteadyClock::Get());
  running.output = output;
  Connect(process, *pass.forward.chain, std::move(room), output);
  SeedChain(process, pass, pass.forward, running);
  running.followers = std::move(pass.followers);
  MakeRules(process, pass);
  if (pass.wants_drafts) {
    pass.forward.chain->speculate = true;
    pass.forward.chain->recent = process.engine().RecentOf(process.options().username, pass.model);
    if (Scheduler* const draft = process.engine().models()[pass.model].draft_scheduler) {
      pass.forward.chain->draft_model = {
          .scheduler = draft, .salt = process.engine().SaltOf(process.options().username)};
    }
  }
  const auto own = static_cast<uint32_t>(pass.forward.tokens.size());
  PIE_RETURN_IF_ERROR(AddTokensAhead(process, pass));
  Forward forward = std::move(pass.forward);
  forward.done = Completion(output, std::move(pass.charge), std::move(counted));
  pass.executed = true;
  const uint32_t handle = PIE_TRY(process.handles().chains.Emplace(std::move(running)));
  if (Status queued = context->Run(std::move(forward), own, std::move(output)); !queued) {
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
  if (stops.size() > kMostStops) {
    return Fail(Code::kExhausted, "the chain has {} stop tokens; at most {} are allowed",
                stops.size(), kMostStops);
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
  if (taken) {
    running.taken += taken->tokens.size();
    // A stop token is not part of the text.
    const bool stopped = taken->ended && taken->end == Chain::End::kStop;
    for (const auto& follower : running.followers) {
      follower->Follow(std::span(taken->tokens).first(taken->tokens.size() - (stopped ? 1 : 0)));
    }
  }
  if (!taken || taken->ended) {
    ReturnDraws(process, running);
    running.followers.clear();  // no token follows that they would have to accept
  }
  if (!taken) return std::unexpected(std::move(taken.error()));
  ChainsProgress progress{.tokens = std::move(taken->tokens)};
  if (taken->ended) {
    progress.ended = EndingOf(taken->end);
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
