#include "host/process.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "host/engine.h"

namespace pie::host {
namespace {

constexpr uint32_t kMostGrammars = 1'024;  // also the limit on matchers
// The memory that a process takes from its user's account at a time.
constexpr size_t kMemoryGrain = 64 << 10;
// The memory of a context: its handle and its lane in the scheduler.
constexpr size_t kContextBytes = 2'048;

}  // namespace

std::shared_ptr<const Charge> Process::ChargeForGrammar(const Matcher& matcher) {
  const auto found = compiled_.find(matcher.compiled_id());
  if (found != compiled_.end()) {
    if (auto charge = found->second.lock()) return charge;
  }
  auto charge = std::make_shared<Charge>(NewCharge());
  const size_t bytes = matcher.compiled_bytes();
  if (!charge->Grow(bytes - std::min(bytes, kCompiledBytes))) return nullptr;
  if (compiled_.size() >= forget_compiled_at_) {
    std::erase_if(compiled_, [](const auto& entry) { return entry.second.expired(); });
    forget_compiled_at_ = std::max<size_t>(64, 2 * compiled_.size());
  }
  compiled_[matcher.compiled_id()] = charge;
  return charge;
}

void GuestMatcher::Follow(std::span<const uint32_t> tokens) {
  if (missed) return;
  const size_t waiting = behind.size() + tokens.size();
  if (waiting > kMostBehind) {
    missed =
        Error{Code::kExhausted,
              fmt::format("{} was not used while chains gave {} tokens; at most {} may wait for "
                          "it: use it between chains, or reset it",
                          name, waiting, kMostBehind)};
  } else if (!behind_charge.Resize(waiting * sizeof(uint32_t))) {
    missed =
        Error{Code::kExhausted,
              fmt::format("memory limit: the tokens that wait for {} take too much memory: use "
                          "it between chains, or reset it",
                          name)};
  }
  if (!missed) {
    behind.insert(behind.end(), tokens.begin(), tokens.end());
    return;
  }
  behind = {};
  behind_charge.Resize(0);
}

Status GuestMatcher::CatchUp() {
  if (missed) return std::unexpected(*missed);
  if (behind.empty()) return {};
  const auto tokens = std::exchange(behind, {});
  Status accepted = Accept(tokens);
  behind_charge.Resize(0);
  return accepted;
}

void GuestMatcher::Reset() {
  behind = {};
  behind_charge.Resize(0);
  missed.reset();
  matcher.Reset();
}

Status GuestMatcher::Accept(std::span<const uint32_t> tokens) {
  // The memory of tokens is known only after they were accepted, so a few are accepted at a time.
  constexpr size_t kTokens = 64;
  size_t taken = 0;
  do {
    const auto next = tokens.subspan(taken, std::min(kTokens, tokens.size() - taken));
    Status accepted = matcher.Accept(next);
    if (accepted) taken += next.size();
    const bool paid = charge.Resize(BytesOf(matcher));
    if (accepted && paid) continue;
    if (taken > 0) {
      if (Status back = matcher.Rollback(taken); !back) return back;
    }
    if (!paid) {
      matcher = PIE_TRY(matcher.Fork());  // gives back the memory of the text that was rolled back
      charge.Resize(BytesOf(matcher));
      return Fail(Code::kExhausted, "memory limit: the text of {} takes too much memory", name);
    }
    return accepted;
  } while (taken < tokens.size());
  return {};
}

Process::Handles::Handles(uint32_t limit, std::atomic<int64_t>* live, ByteBudget* memory)
    : models("model", limit, live, memory),
      tokenizers("tokenizer", limit, live, memory),
      contexts("context", limit, live, memory, kContextBytes),
      passes("forward pass", limit, live, memory, sizeof(Pass) + kHandleBytes),
      outputs("output", limit, live, memory),
      chains("chain", limit, live, memory, 4 * kHandleBytes),
      grammars("grammar", std::min(limit, kMostGrammars), live, memory, kGrammarBytes),
      matchers("matcher", std::min(limit, kMostGrammars), live, memory),
      adapters("adapter", limit, live, memory),
      calls("call", limit, live, memory),
      texts("future string", limit, live, memory),
      blobs("future blob", limit, live, memory),
      children("child", limit, live, memory, sizeof(Process) + sizeof(Handles)),
      subscriptions("subscription", limit, live, memory, 2 * kHandleBytes),
      chat_decoders("decoder", limit, live, memory),
      reasoning_decoders("reasoning decoder", limit, live, memory),
      tool_decoders("tool decoder", limit, live, memory),
      mcp_sessions("MCP session", limit, live, memory) {}

Process::Process(Engine* engine, InstanceId id, Options options)
    : engine_(engine),
      id_(id),
      id_text_(fmt::format("{}-{}", engine->id(), id.value)),
      options_(std::move(options)),
      user_(engine->users().Of(options_.username)),
      memory_(std::make_shared<ByteBudget>(engine->limits().max_inferlet_bytes,
                                           BudgetOf(user_, &User::memory),
                                           ByteBudget::Part{.grain = kMemoryGrain})),
      handles_(std::make_unique<Handles>(engine->limits().max_handles, engine->live_handles(),
                                         memory_.get())),
      linear_(ChargeTo(user_, &User::linear)),
      open_files_(ChargeTo(user_, &User::open_files)),
      pace_(std::make_shared<Pace>(engine->pace())) {
  const Limits& limits = engine->limits();
  inbox_ = std::make_shared<Mailbox>(limits.max_queued_messages, limits.max_queued_bytes);
  files_ = std::make_shared<Mailbox>(limits.max_queued_messages, limits.max_queued_bytes);
}

Process::~Process() = default;

uint64_t Process::SetDrawsAside(uint64_t count) {
  return std::exchange(draws_, draws_ + count);
}

void Process::ReturnDraws(uint64_t first, uint64_t count, uint64_t used) {
  if (draws_ == first + count) draws_ = first + used;
}

DrawSeeds Process::draw_seeds() const {
  return {.engine = engine_->seed(), .process = id_.value};
}

Status Process::SendMessage(std::string text) {
  if (text.size() > engine_->limits().max_message_bytes) {
    return Fail(Code::kExhausted, "a message has at most {} MiB",
                engine_->limits().max_message_bytes >> 20);
  }
  return inbox_->Push(std::move(text), ChargeTo(user_, &User::messages));
}

Status Process::SendFile(std::string bytes) {
  if (bytes.size() > engine_->limits().max_message_bytes) {
    return Fail(Code::kExhausted, "a file has at most {} MiB",
                engine_->limits().max_message_bytes >> 20);
  }
  return files_->Push(std::move(bytes), ChargeTo(user_, &User::messages));
}

void Process::CloseInbox() {
  inbox_->Close();
  files_->Close();
}

void Process::ClientLeft() {
  inbox_->Interrupt();
  files_->Interrupt();
}

void Process::ClientCame() {
  inbox_->Resume();
  files_->Resume();
}

void Process::PassBody(std::string_view piece, bool last) {
  std::lock_guard lock(mutex_);
  if (instance_ && !exit_) instance_->PassBody(piece, last);
}

void Process::Cancel() {
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (instance_ && !exit_) return instance_->Cancel();
  }
  // A process that waits for a place has no instance that would report its end.
  if (engine_->Abandon(*this)) OnExit({wasm::Exit::Kind::kCancelled, "cancelled"});
}

void Process::Stop(std::string reason) {
  {
    std::lock_guard lock(mutex_);
    if (stop_reason_.empty()) stop_reason_ = std::move(reason);
  }
  Cancel();
}

bool Process::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

Status Process::Adopt(const std::shared_ptr<Process>& child) {
  std::lock_guard lock(mutex_);
  if (!adopts_) {
    return Fail(Code::kCancelled, "the inferlet that launches this one has ended");
  }
  children_.emplace(child->id_.value, child);
  return {};
}

void Process::CancelChildren() {
  std::unordered_map<uint64_t, std::weak_ptr<Process>> children;
  {
    std::lock_guard lock(mutex_);
    adopts_ = false;
    children.swap(children_);
  }
  for (const auto& [id, weak] : children) {
    if (auto child = weak.lock()) child->Cancel();
  }
}

void Process::Detach() {
  {
    std::lock_guard lock(mutex_);
    detached_ = ChargeTo(user_, &User::detached);
    if (exit_ || cancelled_ || !detached_.Grow(1)) return;
    is_detached_ = true;
  }
  LeaveParent();
}

void Process::LeaveParent() {
  const auto parent = options_.parent.lock();
  if (!parent) return;
  std::lock_guard lock(parent->mutex_);
  parent->children_.erase(id_.value);
}

std::optional<wasm::Exit> Process::exit() const {
  std::lock_guard lock(mutex_);
  return exit_;
}

wasm::Exit Process::Wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return exit_.has_value(); });
  return *exit_;
}

void Process::OnOutput(bool is_stderr, std::string_view bytes) {
  if (Listener* l = listener()) l->OnOutput(is_stderr, bytes);
}

const wasm::Signal* Process::Room() {
  Listener* l = listener();
  return l != nullptr && l->Full() ? l->room() : nullptr;
}

void Process::OnBodyTaken() {
  if (Listener* l = listener()) l->OnBodyTaken();
}

void Process::OnResponse(uint16_t status, std::string_view headers) {
  if (Listener* l = listener()) l->OnResponse(status, headers);
}

void Process::OnResponseBody(std::string_view bytes) {
  if (Listener* l = listener()) l->OnResponseBody(bytes);
}

void Process::OnResponseEnd(bool complete) {
  if (Listener* l = listener()) l->OnResponseEnd(complete);
}

bool Process::OnGrow(uint64_t bytes) {
  return linear_.Grow(bytes);
}

bool Process::OnOpenFiles(uint64_t count) {
  return open_files_.Grow(count);
}

// A return value outlives the process: the session or the parent's handle holds it.
void Process::ChargeExit(wasm::Exit& exit) {
  const size_t most = engine_->limits().max_message_bytes;
  exit_charge_ = ChargeTo(user_, &User::memory);
  if (exit.text.size() > most) {
    exit.text = fmt::format("the inferlet returned {} bytes; at most {} MiB are allowed",
                            exit.text.size(), most >> 20);
  } else if (!exit_charge_.Grow(exit.text.size())) {
    exit.text = fmt::format(
        "memory limit: the {} bytes that the inferlet returned were dropped; your inferlets hold "
        "{} MiB of the engine's memory",
        exit.text.size(), user_->memory.used() >> 20);
  } else {
    return;
  }
  exit.text.shrink_to_fit();
  exit.kind = wasm::Exit::Kind::kTrapped;
}

void Process::LetGo(wasm::Exit& exit) {
  if (exit.kind == wasm::Exit::Kind::kCancelled) {
    std::lock_guard lock(mutex_);
    exit.text = "cancelled";  // instead of the place in the code at which it was cancelled
    if (!stop_reason_.empty()) exit = {wasm::Exit::Kind::kTrapped, stop_reason_};
  }
  CancelChildren();
  LeaveParent();
  // The handles are destroyed first, so that nothing is left when the end is reported.
  handles_.reset();
  wallet_.reset();
  linear_.Release();
  open_files_.Release();
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;  // from here on, no call detaches the process
    detached_.Release();
  }
  ChargeExit(exit);
  input_.Release();
  place_in_table_.Release();
  CloseInbox();
  engine_->Forget(*this);
}

void Process::OnExit(wasm::Exit exit) {
  // Others wait for the end. Memory that is short must not keep it from them.
  const auto contain = [](auto step) {
    try {
      step();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "pie: the end of an inferlet was not cleaned up: %s\n", error.what());
    }
  };
  contain([&] { LetGo(exit); });
  contain([&] {
    if (Listener* l = listener()) l->OnExit(exit);
  });
  std::shared_ptr<Process> self;
  {
    std::lock_guard lock(mutex_);
    exit_ = std::move(exit);
    self = std::move(self_);
    // Notify with the lock held: a waiter may delete the engine as soon as it gets the lock.
    ended_.notify_all();
    exit_signal_.Fire();
  }
}

}  // namespace pie::host
