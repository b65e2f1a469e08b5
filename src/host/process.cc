#include "host/process.h"

#include <algorithm>

#include <filesystem>
#include <utility>

#include "host/engine.h"

namespace pie::host {

// Each may hold a megabyte.
constexpr uint32_t kMostGrammars = 1'024;

Process::Handles::Handles(uint32_t limit, std::atomic<int64_t>* live)
    : models("model", limit, live),
      tokenizers("tokenizer", limit, live),
      contexts("context", limit, live),
      passes("forward pass", limit, live),
      outputs("output", limit, live),
      chains("chain", limit, live),
      grammars("grammar", std::min(limit, kMostGrammars), live),
      matchers("matcher", std::min(limit, kMostGrammars), live),
      adapters("adapter", limit, live),
      calls("call", limit, live),
      texts("future string", limit, live),
      blobs("future blob", limit, live),
      children("child", limit, live),
      subscriptions("subscription", limit, live),
      chat_decoders("decoder", limit, live),
      reasoning_decoders("reasoning decoder", limit, live),
      tool_decoders("tool decoder", limit, live),
      mcp_sessions("MCP session", limit, live) {}

Process::Process(Engine* engine, InstanceId id, Options options)
    : engine_(engine),
      id_(id),
      id_text_(fmt::format("{}-{}", engine->id(), id.value)),
      options_(std::move(options)),
      handles_(std::make_unique<Handles>(engine->limits().max_handles, engine->live_handles())),
      pace_(std::make_shared<Pace>(engine->pace())) {
  const Limits& limits = engine->limits();
  pass_bytes_ = std::make_shared<ByteBudget>(limits.max_pass_bytes);
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
  return inbox_->Push(std::move(text));
}

Status Process::SendFile(std::string bytes) {
  if (bytes.size() > engine_->limits().max_message_bytes) {
    return Fail(Code::kExhausted, "a file has at most {} MiB",
                engine_->limits().max_message_bytes >> 20);
  }
  return files_->Push(std::move(bytes));
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
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (instance_ && !exit_) instance_->Cancel();
}

void Process::Stop(std::string reason) {
  {
    std::lock_guard lock(mutex_);
    if (stop_reason_.empty()) stop_reason_ = std::move(reason);
  }
  Cancel();
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

void Process::OnExit(wasm::Exit exit) {
  if (exit.kind == wasm::Exit::Kind::kCancelled) {
    std::lock_guard lock(mutex_);
    exit.text = "cancelled";  // and not where its code was just then
    if (!stop_reason_.empty()) exit = {wasm::Exit::Kind::kTrapped, stop_reason_};
  }
  // The sweep first, so that whoever hears of the end finds nothing left behind.
  handles_.reset();
  wallet_.reset();
  input_.Release();
  CloseInbox();
  if (!scratch_dir_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(scratch_dir_, ignored);
  }
  engine_->Forget(*this);
  if (Listener* l = listener()) l->OnExit(exit);
  std::shared_ptr<Process> self;
  {
    std::lock_guard lock(mutex_);
    exit_ = std::move(exit);
    self = std::move(self_);
    // Under the lock: a waiter may delete the engine as soon as it can lock again.
    ended_.notify_all();
    exit_signal_.Fire();
  }
}

}  // namespace pie::host
