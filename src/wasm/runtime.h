// Runtime → Program → Instance: WebAssembly components compiled, run, limited and swept. Knows
// nothing of language models: what a guest may import is a table of functions that the owner passes
// in.
//
// Threads: everything here may be called from any thread. A Guest's calls come from the runtime's
// own threads, one at a time. Cost: a warm launch takes tens of microseconds; loading a component
// that is not in the code cache takes from 0.1 s (Rust) to seconds (Python, JavaScript).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "pie_bridge.h"
#include "wasm/limits.h"
#include "wasm/signal.h"
#include "wasm/turns.h"

namespace pie::wasm {

// How a run ended.
struct Exit {
  enum class Kind { kReturned, kFailed, kTrapped, kCancelled };
  Kind kind = Kind::kReturned;
  std::string text;  // the return value, or what went wrong
};

// What answers a guest's calls and hears of it. The host table's functions get it as their first
// argument.
class Guest {
 public:
  virtual ~Guest() = default;
  virtual void OnOutput(bool is_stderr, std::string_view bytes) = 0;
  // The signal to wait for before the guest may write more. Null while there is room.
  virtual const Signal* Room() { return nullptr; }
  // The last call: the guest's memory is gone, and the object may delete itself.
  virtual void OnExit(Exit exit) = 0;
};

struct RuntimeOptions {
  uint32_t worker_threads = 0;    // 0 = one a core
  uint32_t max_instances = 1000;  // more wait their turn
  Limits limits;
  std::string cache_dir;                        // compiled code; empty = not kept
  const pie_bridge::HostTable* host = nullptr;  // lives as long as the process
};

class Program;

class Runtime {
 public:
  static Result<std::unique_ptr<Runtime>> Start(const RuntimeOptions& options);
  // Cancels what runs and waits for every OnExit. Programs must be gone before.
  ~Runtime();

  // Checks, compiles (or takes from the cache) and links. `on_compile` is called, on this thread,
  // if it has to compile.
  Result<std::shared_ptr<Program>> Load(std::string_view component,
                                        const std::function<void()>& on_compile);

  size_t live_instances() const;
  // For a thread that lends itself to guests; may outlive the runtime.
  std::unique_ptr<Turns> turns() const;

 private:
  explicit Runtime(const pie_bridge::Runtime* raw) : raw_(raw) {}
  const pie_bridge::Runtime* raw_;
};

// One run. Dropping the handle lets it run on.
class Instance {
 public:
  ~Instance();
  // At once while it waits, within milliseconds while it computes. OnExit still comes.
  void Cancel();

 private:
  friend class Program;
  explicit Instance(pie_bridge::Instance* raw) : raw_(raw) {}
  pie_bridge::Instance* raw_;
};

// A folder of the host, and how many bytes may be in it: a guest's write past them fails.
struct Folder {
  std::string_view dir;
  uint64_t max_bytes = 0;
};

class Program {
 public:
  ~Program();
  // `guest` lives until its OnExit. The folders are its /scratch and /data; an empty one is not
  // there.
  std::unique_ptr<Instance> Launch(Guest* guest, std::string_view input, Folder scratch,
                                   Folder data = {});
  // Runs on quickly made code while better code is being made.
  bool optimising() const;

 private:
  friend class Runtime;
  explicit Program(const pie_bridge::Program* raw) : raw_(raw) {}
  const pie_bridge::Program* raw_;
};

}  // namespace pie::wasm
