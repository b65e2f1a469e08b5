#include "wasm/runtime.h"

#include "wasm/guest_call.h"
#include "wasm/text.h"

namespace pie::wasm {
namespace {

// Receives the text of an error of the bridge.
class ErrorText {
 public:
  ErrorText() : out_(pie_bridge::pie_out_new()) {}
  ~ErrorText() { pie_bridge::pie_out_free(out_); }
  ErrorText(const ErrorText&) = delete;
  ErrorText& operator=(const ErrorText&) = delete;
  pie_bridge::Out* get() { return out_; }
  std::string text() const {
    std::string text(View(pie_bridge::pie_out_read(out_)));
    return text.empty() ? "the WebAssembly runtime failed (a bug in Pie)" : text;
  }

 private:
  pie_bridge::Out* out_;
};

void OnOutput(void* guest, bool is_stderr, pie_bridge::Str bytes) {
  const GuestCall call(guest);
  static_cast<Guest*>(guest)->OnOutput(is_stderr, View(bytes));
}

const pie_bridge::Signal* Room(void* guest) {
  const GuestCall call(guest);
  const Signal* room = static_cast<Guest*>(guest)->Room();
  return room != nullptr ? room->raw() : nullptr;
}

void OnExit(void* guest, pie_bridge::ExitKind kind, pie_bridge::Str text) {
  auto to_kind = [](pie_bridge::ExitKind k) {
    switch (k) {
      case pie_bridge::ExitKind::Returned:
        return Exit::Kind::kReturned;
      case pie_bridge::ExitKind::Failed:
        return Exit::Kind::kFailed;
      case pie_bridge::ExitKind::Cancelled:
        return Exit::Kind::kCancelled;
      case pie_bridge::ExitKind::Trapped:
        break;
    }
    return Exit::Kind::kTrapped;
  };
  const GuestCall call(guest);
  static_cast<Guest*>(guest)->OnExit({to_kind(kind), std::string(View(text))});
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::Start(const RuntimeOptions& options) {
  PIE_CHECK(options.host != nullptr);
  const Limits& limits = options.limits;
  pie_bridge::RuntimeConfig config{
      .worker_threads = options.worker_threads,
      .max_instances = options.max_instances,
      .limits = {.max_memory_bytes = limits.max_memory_bytes,
                 .max_table_elements = limits.max_table_elements,
                 .max_handles = limits.max_handles,
                 .cpu_budget_ms = limits.cpu_budget_ms,
                 .max_output_bytes = limits.max_output_bytes},
      .quick_only = options.quick_only,
      .cache_dir = ToStr(options.cache_dir),
      .callbacks = {.on_output = OnOutput, .room = Room, .on_exit = OnExit},
  };
  ErrorText error;
  const auto* raw = pie_bridge::pie_runtime_new(&config, options.host, error.get());
  if (raw == nullptr) return Fail(Code::kUnavailable, "{}", error.text());
  return std::unique_ptr<Runtime>(new Runtime(raw));
}

Runtime::~Runtime() {
  pie_bridge::pie_runtime_free(raw_);
}

Result<std::shared_ptr<Program>> Runtime::Load(std::string_view component,
                                               const std::function<void()>& on_compile) {
  auto on_phase = [](void* data, pie_bridge::LoadPhase phase) {
    const auto& report = *static_cast<const std::function<void()>*>(data);
    if (phase == pie_bridge::LoadPhase::Compiling && report) report();
  };
  ErrorText error;
  const auto* raw =
      pie_bridge::pie_program_load(raw_, ToStr(component), on_phase,
                                   const_cast<std::function<void()>*>(&on_compile), error.get());
  if (raw == nullptr) return Fail(Code::kInvalid, "{}", error.text());
  return std::shared_ptr<Program>(new Program(raw));
}

size_t Runtime::live_instances() const {
  return pie_bridge::pie_runtime_live(raw_);
}

std::unique_ptr<Turns> Runtime::turns() const {
  return std::make_unique<Turns>(pie_bridge::pie_turns_new(raw_));
}

Program::~Program() {
  pie_bridge::pie_program_free(raw_);
}

std::unique_ptr<Instance> Program::Launch(Guest* guest, std::string_view input, Folder scratch,
                                          Folder data) {
  {
    const GuestCall call(guest);  // publishes what this thread has done to the guest's object
  }
  auto* raw = pie_bridge::pie_instance_launch(raw_, guest, ToStr(input),
                                              {ToStr(scratch.dir), scratch.max_bytes},
                                              {ToStr(data.dir), data.max_bytes});
  PIE_CHECK(raw != nullptr);
  return std::unique_ptr<Instance>(new Instance(raw));
}

bool Program::optimising() const {
  return pie_bridge::pie_program_optimising(raw_);
}

Instance::~Instance() {
  pie_bridge::pie_instance_free(raw_);
}

void Instance::Cancel() {
  pie_bridge::pie_instance_cancel(raw_);
}

}  // namespace pie::wasm
