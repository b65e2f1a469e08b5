#include "wasm/runtime.h"

#include <charconv>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "abi/out.h"
#include "abi/text.h"
#include "wasm/guest_call.h"

namespace pie::wasm {
namespace {

using abi::ToStr;
using abi::View;

// Calls the guest's object. An exception would end the process if it crossed into Rust, so it is
// logged, and the result is `otherwise`.
template <class T, class F>
T Contain(void* guest, T otherwise, F call) noexcept {
  const GuestCall marked(guest);
  try {
    return call(*static_cast<Guest*>(guest));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pie: a call for an inferlet failed: %s\n", error.what());
    return otherwise;
  } catch (...) {
    std::fprintf(stderr, "pie: a call for an inferlet failed\n");
    return otherwise;
  }
}

template <class F>
void Contain(void* guest, F call) noexcept {
  Contain(guest, false, [&](Guest& of) {
    call(of);
    return true;
  });
}

void OnOutput(void* guest, bool is_stderr, pie_bridge::Str bytes) {
  Contain(guest, [&](Guest& of) { of.OnOutput(is_stderr, View(bytes)); });
}

const pie_bridge::Signal* Room(void* guest) {
  const Signal* room = Contain<const Signal*>(guest, nullptr, [](Guest& of) { return of.Room(); });
  return room != nullptr ? room->raw() : nullptr;
}

bool Grow(void* guest, uint64_t bytes) {
  return Contain(guest, false, [&](Guest& of) { return of.OnGrow(bytes); });
}

bool OpenFiles(void* guest, uint64_t count) {
  return Contain(guest, false, [&](Guest& of) { return of.OnOpenFiles(count); });
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
  Exit exit{to_kind(kind), {}};
  try {
    exit.text = View(text);
  } catch (const std::bad_alloc&) {
    exit.kind = Exit::Kind::kTrapped;  // its result is lost
  }
  Contain(guest, [&](Guest& of) { of.OnExit(std::move(exit)); });
}

void OnBodyTaken(void* guest) {
  Contain(guest, [](Guest& of) { of.OnBodyTaken(); });
}

void OnResponse(void* guest, uint16_t status, pie_bridge::Str headers) {
  Contain(guest, [&](Guest& of) { of.OnResponse(status, View(headers)); });
}

void OnResponseBody(void* guest, pie_bridge::Str bytes) {
  Contain(guest, [&](Guest& of) { of.OnResponseBody(View(bytes)); });
}

void OnResponseEnd(void* guest, bool complete) {
  Contain(guest, [&](Guest& of) { of.OnResponseEnd(complete); });
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::Start(const RuntimeOptions& options) {
  PIE_CHECK(options.host != nullptr);
  const Limits& limits = options.limits;
  std::string allow;
  for (const std::string& entry : options.http_allow) allow += entry + "\n";
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
      .compiler = ToStr(options.compiler),
      .compile_limits = {.cpu_secs = options.compile_limits.cpu_secs,
                         .memory_bytes = options.compile_limits.memory_bytes},
      .callbacks = {.on_output = OnOutput,
                    .room = Room,
                    .grow = Grow,
                    .open_files = OpenFiles,
                    .on_exit = OnExit,
                    .on_body_taken = OnBodyTaken,
                    .on_response = OnResponse,
                    .on_response_body = OnResponseBody,
                    .on_response_end = OnResponseEnd},
      .http = {.allow = ToStr(allow),
               .max_requests = options.http.max_requests,
               .max_in_flight = options.http.max_in_flight,
               .max_request_bytes = options.http.max_request_bytes,
               .max_response_bytes = options.http.max_response_bytes,
               .timeout_ms = options.http.timeout_ms},
  };
  abi::Out out;
  const auto* raw = pie_bridge::pie_runtime_new(&config, options.host, out.get());
  if (raw == nullptr) return Fail(Code::kUnavailable, "{}", out.error());
  return std::unique_ptr<Runtime>(new Runtime(raw));
}

Runtime::~Runtime() {
  pie_bridge::pie_runtime_free(raw_);
}

void Runtime::StopCompilers() {
  pie_bridge::pie_runtime_stop_compilers(raw_);
}

Result<std::shared_ptr<Program>> Runtime::Load(std::string_view component, std::string_view owner,
                                               bool may_compile,
                                               const std::function<void()>& on_compile) {
  auto on_phase = [](void* data, pie_bridge::LoadPhase phase) {
    const auto& report = *static_cast<const std::function<void()>*>(data);
    if (phase != pie_bridge::LoadPhase::Compiling || !report) return;
    try {
      report();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "pie: a report of compiling failed: %s\n", error.what());
    }
  };
  abi::Out out;
  const auto* raw =
      pie_bridge::pie_program_load(raw_, ToStr(component), ToStr(owner), may_compile, on_phase,
                                   const_cast<std::function<void()>*>(&on_compile), out.get());
  if (raw == nullptr && !may_compile && out.text().empty()) return nullptr;
  if (raw == nullptr) return Fail(Code::kInvalid, "{}", out.error());
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

static pie_bridge::Folder ToFolder(const Folder& folder) {
  return {.dir = ToStr(folder.dir),
          .max_bytes = folder.max_bytes,
          .max_bytes_above = {folder.max_bytes_above[0], folder.max_bytes_above[1]}};
}

std::unique_ptr<Instance> Program::Launch(Guest* guest, std::string_view input, Folder scratch,
                                          Folder data, uint64_t user) {
  {
    const GuestCall call(guest);  // publishes what this thread has done to the guest's object
  }
  auto* raw = pie_bridge::pie_instance_launch(raw_, guest, ToStr(input), ToFolder(scratch),
                                              ToFolder(data), user);
  PIE_CHECK(raw != nullptr);
  return std::unique_ptr<Instance>(new Instance(raw));
}

std::unique_ptr<Instance> Program::Serve(Guest* guest, const HttpRequest& request, Folder scratch,
                                         Folder data, uint64_t user) {
  {
    const GuestCall call(guest);  // as for Launch
  }
  const pie_bridge::RequestHead head{.method = ToStr(request.method),
                                     .target = ToStr(request.target),
                                     .authority = ToStr(request.authority),
                                     .secure = request.secure,
                                     .headers = ToStr(request.headers),
                                     .input = ToStr(request.input)};
  auto* raw =
      pie_bridge::pie_instance_serve(raw_, guest, &head, ToFolder(scratch), ToFolder(data), user);
  PIE_CHECK(raw != nullptr);
  return std::unique_ptr<Instance>(new Instance(raw));
}

bool Program::runs() const {
  return pie_bridge::pie_program_runs(raw_);
}

bool Program::serves() const {
  return pie_bridge::pie_program_serves(raw_);
}

bool Program::uses_files() const {
  return pie_bridge::pie_program_uses_files(raw_);
}

size_t Program::code_bytes() const {
  return pie_bridge::pie_program_bytes(raw_);
}

bool Program::wants_optimising() const {
  return pie_bridge::pie_program_wants_optimising(raw_);
}

bool Program::Optimise(std::string_view component, std::string_view owner) {
  return pie_bridge::pie_program_optimise(raw_, ToStr(component), ToStr(owner));
}

int CompileMain(const std::vector<std::string>& arguments) {
  constexpr int kFailed = 2;
  if (arguments.size() != 4) return kFailed;
  pie_bridge::CompileLimits limits{};
  uint32_t parent = 0;
  auto read = [](const std::string& text, auto* number) {
    const char* end = text.data() + text.size();
    return std::from_chars(text.data(), end, *number).ptr == end;
  };
  if (!read(arguments[1], &limits.cpu_secs) || !read(arguments[2], &limits.memory_bytes) ||
      !read(arguments[3], &parent)) {
    return kFailed;
  }
  return pie_bridge::pie_compile_main(arguments[0] == "quick", limits, parent);
}

Instance::~Instance() {
  pie_bridge::pie_instance_free(raw_);
}

void Instance::PassBody(std::string_view piece, bool last) {
  pie_bridge::pie_instance_pass_body(raw_, ToStr(piece), last);
}

void Instance::Cancel() {
  pie_bridge::pie_instance_cancel(raw_);
}

}  // namespace pie::wasm
