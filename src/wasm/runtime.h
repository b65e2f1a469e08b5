// Runtime → Program → Instance: compiles and runs WebAssembly components and enforces their limits.
// This folder knows nothing of language models; the owner passes in a table of the functions that
// a guest may import.
//
// Threads: everything here may be called from any thread. The runtime's own threads call a Guest,
// one at a time. Cost: a warm launch takes tens of microseconds. Loading a component that is not in
// the code cache takes from 0.1 s (Rust) to seconds (Python, JavaScript).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
  std::string text;  // the return value, or the error
};

// The owner's object for one guest. The functions of the host table get it as their first argument.
class Guest {
 public:
  virtual ~Guest() = default;
  virtual void OnOutput(bool is_stderr, std::string_view bytes) = 0;
  // The signal to wait for before the guest may write more. Null while there is room.
  virtual const Signal* Room() { return nullptr; }
  // For a guest that answers an HTTP request. Headers are lines of the form `name:value`.
  virtual void OnBodyTaken() {}  // the next piece of the request's body may follow
  virtual void OnResponse(uint16_t /*status*/, std::string_view /*headers*/) {}
  virtual void OnResponseBody(std::string_view /*bytes*/) {}
  virtual void OnResponseEnd(bool /*complete*/) {}
  // Called before the guest's memories grow by this number of bytes. Returns false to refuse that.
  // The memories are freed before the exit.
  virtual bool OnGrow(uint64_t) { return true; }
  // Called before the guest has this many more files, streams and sockets open than ever before.
  // Returns false to refuse that. All are closed before the exit.
  virtual bool OnOpenFiles(uint64_t /*count*/) { return true; }
  // The last call. The guest's memory is freed, and the object may delete itself.
  virtual void OnExit(Exit exit) = 0;
};

struct RuntimeOptions {
  uint32_t worker_threads = 0;    // 0: one for each core
  uint32_t max_instances = 1000;  // others wait
  Limits limits;
  bool quick_only = false;  // run only the quick compiler's code, to test it
  HttpLimits http;
  std::vector<std::string> http_allow;  // hosts that guests may reach by HTTP
  std::string cache_dir;                // the folder of the code cache; empty: none
  // The program that compiles components, which passes its command `compile-component` on to
  // CompileMain. Empty: this process compiles them, without limits.
  std::string compiler;
  CompileLimits compile_limits;
  const pie_bridge::HostTable* host = nullptr;  // lives as long as the process
};

class Program;

class Runtime {
 public:
  static Result<std::unique_ptr<Runtime>> Start(const RuntimeOptions& options);
  // Cancels all instances and waits for every OnExit. All programs must be destroyed before.
  ~Runtime();

  // Checks the component, compiles it or finds its code in the cache, and links it. Calls
  // `on_compile` on this thread if it has to compile. The code's size in the cache counts for the
  // user `owner`.
  Result<std::shared_ptr<Program>> Load(std::string_view component, std::string_view owner,
                                        const std::function<void()>& on_compile) {
    return Load(component, owner, true, on_compile);
  }
  // The same without a compiler: null if the code is not in the cache.
  Result<std::shared_ptr<Program>> LoadCompiled(std::string_view component) {
    return Load(component, {}, false, {});
  }
  // Kills the compilers that run, whose callers get errors, and lets no other begin.
  void StopCompilers();

  size_t live_instances() const;
  // For a thread that lends itself to guests. The object may outlive the runtime.
  std::unique_ptr<Turns> turns() const;

 private:
  explicit Runtime(const pie_bridge::Runtime* raw) : raw_(raw) {}
  Result<std::shared_ptr<Program>> Load(std::string_view component, std::string_view owner,
                                        bool may_compile, const std::function<void()>& on_compile);
  const pie_bridge::Runtime* raw_;
};

// One run of a program. It continues when this handle is destroyed.
class Instance {
 public:
  ~Instance();
  // Passes a piece of the request's body, and its end if `last`. After a piece that is not empty,
  // the next one may follow when OnBodyTaken was called.
  void PassBody(std::string_view piece, bool last);
  // Stops the guest: at once while it waits, within milliseconds while it computes. OnExit is still
  // called.
  void Cancel();

 private:
  friend class Program;
  explicit Instance(pie_bridge::Instance* raw) : raw_(raw) {}
  pie_bridge::Instance* raw_;
};

// A folder of the host, and how many bytes it may hold. A guest that writes more traps.
struct Folder {
  std::string_view dir;
  uint64_t max_bytes = 0;
  // The same for the folder that it lies in, and for the one above that. 0: those are not counted.
  std::array<uint64_t, 2> max_bytes_above = {};
};

// The head of an HTTP request.
struct HttpRequest {
  std::string_view method;
  std::string_view target;     // path and query
  std::string_view authority;  // the host that the client named
  bool secure = false;
  std::string_view headers;  // lines of the form `name:value`
  std::string_view input;    // the guest's environment variable PIE_INPUT; empty: none
};

class Program {
 public:
  ~Program();
  bool runs() const;    // has a function `run`
  bool serves() const;  // answers HTTP requests
  bool uses_files() const;
  // The bytes that its code and data take in memory. They change when it is optimised.
  size_t code_bytes() const;
  // Starts the program. `guest` must live until its OnExit. The guest sees the folders as /scratch
  // and /data; a folder with an empty name is not there. Guests that compute take turns by `user`.
  std::unique_ptr<Instance> Launch(Guest* guest, std::string_view input, Folder scratch,
                                   Folder data = {}, uint64_t user = 0);
  // Lets the program answer a request, whose body follows by Instance::PassBody.
  std::unique_ptr<Instance> Serve(Guest* guest, const HttpRequest& request, Folder scratch,
                                  Folder data = {}, uint64_t user = 0);
  // Whether it runs on code of the quick compiler, and better code can be made.
  bool wants_optimising() const;
  // Compiles its component again for the user `owner`, with the optimising compiler, and blocks
  // meanwhile. Returns false if the program keeps its present code.
  bool Optimise(std::string_view component, std::string_view owner);

 private:
  friend class Runtime;
  explicit Program(const pie_bridge::Program* raw) : raw_(raw) {}
  const pie_bridge::Program* raw_;
};

// Runs the command `compile-component` of the compiler's program. `arguments` follow the name of
// the command. Returns the exit code of the process.
int CompileMain(const std::vector<std::string>& arguments);
inline constexpr std::string_view kCompileCommand = "compile-component";

}  // namespace pie::wasm
