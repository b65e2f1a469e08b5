// Process: one running inferlet: the objects that it holds, the messages that it receives, and how
// it ended.
//
// Host calls use the handle tables from the guest's thread, one at a time. Any thread may use the
// inbox, the exit and the signal. The run of the process keeps it alive until OnExit. So does each
// reference, for example of a session or of the parent's child handle.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/random.h"
#include "host/adapters.h"
#include "host/byte_budget.h"
#include "host/chain_output.h"
#include "host/context.h"
#include "host/handle_table.h"
#include "host/hub.h"
#include "host/mailbox.h"
#include "host/matcher_rules.h"
#include "host/pace.h"
#include "host/pending.h"
#include "host/snapshots.h"
#include "host/users.h"
#include "host/wallet.h"
#include "speech/chat_decoder.h"
#include "speech/grammar.h"
#include "speech/reasoning_decoder.h"
#include "speech/tool_decoder.h"
#include "wasm/runtime.h"
#include "wasm/signal.h"

namespace pie::host {

class Engine;
class McpServers;
struct LoadedModel;

// Receives the output of a process. It is called by the engine's threads, in order; `OnExit` is
// last.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void OnMessage(std::string_view text) = 0;  // session.send
  virtual void OnFile(std::string_view bytes) = 0;    // session.send_file
  virtual void OnOutput(bool is_stderr, std::string_view bytes) = 0;
  virtual void OnExit(const wasm::Exit& exit) = 0;
  // The response of a process that answers an HTTP request (Engine::Serve).
  virtual void OnBodyTaken() {}
  virtual void OnResponse(uint16_t /*status*/, std::string_view /*headers*/) {}
  virtual void OnResponseBody(std::string_view /*bytes*/) {}
  virtual void OnResponseEnd(bool /*complete*/) {}
  // Whether the process must wait before it sends more. `room` fires when it need not wait any
  // longer.
  virtual bool Full() { return false; }
  virtual wasm::Signal* room() { return nullptr; }
};

// A grammar that a guest holds.
struct HeldGrammar {
  explicit HeldGrammar(Grammar of, Charge paid = {})
      : grammar(std::move(of)), charge(std::move(paid)) {}
  Grammar grammar;
  Charge charge;  // for its memory beyond kGrammarBytes
};
// Each grammar is charged for this, and for its memory beyond it.
inline constexpr size_t kGrammarBytes = 64 << 10;

// A matcher that a guest holds. When the guest uses it, it first accepts the tokens that the guest
// has taken from a chain since.
struct GuestMatcher {
  GuestMatcher(Matcher of, std::string called, Charge paid,
               std::shared_ptr<const Charge> paid_for_grammar)
      : matcher(std::move(of)),
        name(std::move(called)),
        behind_charge(paid.Same()),
        charge(std::move(paid)),
        compiled(std::move(paid_for_grammar)) {}
  // Accepts all tokens, or none. Fails also if the text would take too much memory.
  Status Accept(std::span<const uint32_t> tokens);
  // The guest has taken these tokens from a chain. They are accepted when the matcher is used next.
  void Follow(std::span<const uint32_t> tokens);
  // Fails also if the matcher has missed tokens, because too many waited.
  Status CatchUp();
  void Reset();
  Matcher matcher;
  std::string name;                        // its name in errors
  std::vector<uint32_t> behind;            // taken from chains, and not accepted yet
  Charge behind_charge;                    // for their memory
  std::optional<Error> missed;             // why tokens were missed
  Charge charge;                           // for BytesOf(matcher)
  std::shared_ptr<const Charge> compiled;  // for the compiled grammar; other matchers share it
};
// The most tokens of chains that may wait for a matcher.
inline constexpr size_t kMostBehind = 1 << 20;
// Each matcher is charged for this at least. Nearly all texts need less.
inline constexpr size_t kMatcherBytes = 64 << 10;
// The charge for a matcher and the memory of its text. A chain may hold the matcher when the guest
// has dropped its handle, so the matcher holds the charge, and not the handle.
inline size_t BytesOf(const Matcher& matcher) {
  return std::max(matcher.bytes(), kMatcherBytes);
}
// A process is charged for the memory of each compiled grammar beyond this.
inline constexpr size_t kCompiledBytes = 256 << 10;

// A pass that a guest is putting together.
struct Pass {
  uint32_t model = 0;  // index of the engine's model
  struct Chosen {
    uint32_t handle;
    SequenceId sequence;  // handles are reused: a handle of another sequence is another context
  };
  std::optional<Chosen> context;
  Forward forward;
  Charge charge;                                         // for the memory of `forward`
  std::vector<MatcherRules::Named> matchers;             // copies of the guest's matchers
  std::vector<std::shared_ptr<GuestMatcher>> followers;  // the originals of these copies
  std::vector<uint32_t> drafts, draft_positions;
  bool wants_drafts = false;  // the guest asked the engine to draft tokens
  bool seeded = false;
  std::shared_ptr<NamedAdapter> adapter;  // null: the model without an adapter
  std::optional<int64_t> zo_seed;
  bool executed = false;
  // Why `execute` refuses the pass. The functions that set the parts of a pass return no result, so
  // they store their error here. The first error stays.
  std::optional<Error> refusal;

  void Refuse(Error error) {
    if (!refusal) refusal = std::move(error);
  }
};

// The result of a pass. The step thread writes it once, and the guest reads it.
struct PassOutput {
  wasm::Signal signal;
  std::atomic<bool> ready = false;
  bool taken = false;
  int64_t ended_ns = 0;
  Charge charge;  // for the result
  Result<std::vector<Slot>> result;
  std::shared_ptr<DraftVerdict> verdict;  // for the context, if the pass had drafts
  // The engine's drafts for the next pass, if the guest asked for any, and the position of the
  // first.
  std::vector<uint32_t> drafts;
  uint32_t draft_position = 0;
};

// The seeds of passes for which the guest gives no seed.
struct DrawSeeds {
  uint64_t engine = 0;
  uint64_t process = 0;
  uint64_t Of(uint64_t draw) const { return Mix(engine, process, draw); }
};

// A guest's session with an MCP server.
struct McpSession {
  std::shared_ptr<McpServers> servers;
  std::string server;
};

// A decoder, and the charge for the text that it keeps.
template <class T>
struct Charged {
  std::unique_ptr<T> decoder;
  Charge charge;
};

// A model as a guest uses it.
struct ModelHandle {
  uint32_t index;                 // of the engine's model
  ChatTemplate::Options options;  // of its chat template
  Charge charge;                  // for the options
};

// A chain that a guest holds.
struct RunningChain {
  uint32_t context;     // its handle
  SequenceId sequence;  // the context's sequence: another one means that the handle was reused
  std::shared_ptr<ChainOutput> output;
  std::optional<uint64_t> first_draw;  // the first number that was set aside (SetDrawsAside)
  uint64_t draws_set_aside = 0;
  uint64_t taken = 0;  // the number of tokens that the guest has taken
  std::vector<std::shared_ptr<GuestMatcher>> followers;
};

class Process final : public wasm::Guest, public std::enable_shared_from_this<Process> {
 public:
  struct Options {
    std::string program;  // name@version
    std::string username = "local";
    std::shared_ptr<Listener> listener;  // null: the output is dropped
    uint32_t depth = 0;  // the number of ancestors: its parent, its parent's parent, …
    std::weak_ptr<Process> parent = {};  // its end cancels this process; may be empty
    // The number of tokens that this process and its children may compute. Null: no limit.
    std::shared_ptr<ByteBudget> token_budget = {};
    std::shared_ptr<McpServers> mcp = {};  // for this process and its children; null: none
  };

  Process(Engine* engine, InstanceId id, Options options);
  ~Process() override;

  const std::string& id() const { return id_text_; }
  const Options& options() const { return options_; }
  Engine& engine() { return *engine_; }
  // Passes for which the guest gives no seed are numbered, and each draws from the seed of its
  // number. SetDrawsAside reserves `count` numbers and returns the first.
  uint64_t SetDrawsAside(uint64_t count);
  // Gives back the numbers after the first `used`, unless other numbers were reserved meanwhile.
  void ReturnDraws(uint64_t first, uint64_t count, uint64_t used);
  DrawSeeds draw_seeds() const;
  uint64_t NextSeed() { return draw_seeds().Of(SetDrawsAside(1)); }
  const std::shared_ptr<User>& user() const { return user_; }
  // A charge for memory of the engine that the guest causes to be allocated.
  Charge NewCharge() { return Charge(memory_); }
  // A charge for the compiled grammar of a matcher, which the matchers of this process share. Null:
  // the process or its user has not enough memory left. Called by the guest's thread.
  std::shared_ptr<const Charge> ChargeForGrammar(const Matcher& matcher);
  const std::shared_ptr<Pace>& pace() const { return pace_; }
  // The types of the tools' parameters, for the tools that the guest has named. Used by the guest's
  // thread.
  const std::shared_ptr<ToolTypes>& tool_types() const { return tool_types_; }

  // The functions below are for the process's client.
  Status SendMessage(std::string text);
  Status SendFile(std::string bytes);
  void CloseInbox();  // the client will not come back
  void ClientLeft();  // the client may come back; one receive returns nothing
  void ClientCame();
  // Gives the process the next piece of the body of its HTTP request; see wasm::Instance.
  void PassBody(std::string_view piece, bool last);
  void Cancel();
  void Stop(std::string reason);  // cancels the process; the exit is an error with this reason
  // Makes the child end when this process ends. Fails if this process has ended already.
  Status Adopt(const std::shared_ptr<Process>& child);
  // Lets the process run on when the inferlet that launched it ends, unless its user has too many
  // such processes already.
  void Detach();
  bool detached() const { return is_detached_; }
  // How the process ended; none while it runs.
  std::optional<wasm::Exit> exit() const;
  wasm::Signal& exit_signal() { return exit_signal_; }
  // Blocks until the process has ended.
  wasm::Exit Wait();

  // wasm::Guest
  void OnOutput(bool is_stderr, std::string_view bytes) override;
  const wasm::Signal* Room() override;
  void OnBodyTaken() override;
  void OnResponse(uint16_t status, std::string_view headers) override;
  void OnResponseBody(std::string_view bytes) override;
  void OnResponseEnd(bool complete) override;
  bool OnGrow(uint64_t bytes) override;
  bool OnOpenFiles(uint64_t count) override;
  void OnExit(wasm::Exit exit) override;

  // The objects that the guest holds. Null after the process has ended.
  struct Handles {
    Handles(uint32_t limit, std::atomic<int64_t>* live, ByteBudget* memory);
    HandleTable<ModelHandle> models;
    HandleTable<uint32_t> tokenizers;  // index of the engine's model
    HandleTable<Context> contexts;
    HandleTable<Pass> passes;
    HandleTable<std::shared_ptr<PassOutput>> outputs;
    HandleTable<RunningChain> chains;
    HandleTable<HeldGrammar> grammars;
    HandleTable<std::shared_ptr<GuestMatcher>> matchers;
    HandleTable<AdapterHandle> adapters;
    HandleTable<std::shared_ptr<Waitable>> calls;  // host calls on which another thread works
    HandleTable<std::shared_ptr<Letter>> texts, blobs;
    HandleTable<std::shared_ptr<Process>> children;
    HandleTable<std::shared_ptr<Subscription>> subscriptions;
    HandleTable<Charged<ChatDecoder>> chat_decoders;
    HandleTable<Charged<ReasoningDecoder>> reasoning_decoders;
    HandleTable<Charged<ToolDecoder>> tool_decoders;
    HandleTable<McpSession> mcp_sessions;
  };
  Handles& handles() { return *handles_; }
  Wallet& wallet() { return *wallet_; }  // null after the process has ended
  Listener* listener() { return options_.listener.get(); }
  Mailbox& inbox() { return *inbox_; }
  Mailbox& files() { return *files_; }
  // The folders that the guest sees as /scratch and /data; empty if the guest has none.
  const std::string& scratch_dir() const { return scratch_dir_; }
  const std::string& data_dir() const { return data_dir_; }

 private:
  friend class Engine;
  bool cancelled() const;
  void CancelChildren();
  void ChargeExit(wasm::Exit& exit);
  // Gives back all that it holds, and leaves the engine.
  void LetGo(wasm::Exit& exit);
  void LeaveParent();

  Engine* engine_;
  InstanceId id_;
  std::string id_text_;
  Options options_;
  const std::shared_ptr<User> user_;
  const std::shared_ptr<ByteBudget>
      memory_;  // memory of the engine that the guest causes to be allocated
  std::unique_ptr<Handles> handles_;
  std::unique_ptr<Wallet> wallet_ = std::make_unique<Wallet>(id_.value, user_->number);
  std::shared_ptr<Mailbox> inbox_, files_;
  Charge place_in_table_, input_;  // for the process itself, and for its input
  Charge detached_;                // for outliving its parent
  Charge linear_;                  // for its linear memories
  Charge open_files_;              // for its open files, streams and sockets
  Charge exit_charge_;             // for its return value
  std::atomic<bool> is_detached_ = false;
  const std::shared_ptr<Pace> pace_;
  const int64_t launched_ns_ = SteadyClock::Get().NowNs();
  uint64_t draws_ = 0;  // the next number of SetDrawsAside
  // The compiled grammars of its matchers, by id. Those that it holds no longer are forgotten when
  // there are twice as many.
  const std::shared_ptr<ToolTypes> tool_types_ = std::make_shared<ToolTypes>();
  std::unordered_map<size_t, std::weak_ptr<const Charge>> compiled_;
  size_t forget_compiled_at_ = 64;
  std::string scratch_dir_, data_dir_;
  std::atomic<bool> has_place_ = false;  // the process has a place among those that run

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<wasm::Exit> exit_;
  std::unique_ptr<wasm::Instance> instance_;
  bool cancelled_ = false;
  std::string stop_reason_;
  bool adopts_ = true;                                             // false after the end
  std::unordered_map<uint64_t, std::weak_ptr<Process>> children_;  // running ones, by id
  std::shared_ptr<Process> self_;                                  // null after the end
  wasm::Signal exit_signal_;
};

}  // namespace pie::host
