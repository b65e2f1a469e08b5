#include "server/exchange.h"

#include "base/utf8.h"

namespace pie::server {
namespace {

// The instance waits while this many bytes of its response are not sent.
constexpr size_t kMostUnsentBytes = 256ull << 10;

}  // namespace

std::string ErrorJson(std::string_view type, std::string_view message, std::string_view code) {
  nlohmann::json error = {
      {"message", ToValidUtf8(message)}, {"type", type}, {"param", nullptr}, {"code", nullptr}};
  if (!code.empty()) error["code"] = code;
  return nlohmann::json{{"type", "error"}, {"error", error}}.dump() + "\n";
}

Exchange::Exchange(Service& service, Client* client, Call call)
    : service_(service),
      count_(service.exchanges),
      client_(client),
      call_(std::move(call)),
      place_(service.requests.Of(call_.username)),
      stderr_log_(&service.log, service.limits.max_logged_stderr_bytes) {
  ++*count_;
  place_.Grow(1);  // FindCall has seen that it fits
}

Exchange::~Exchange() {
  --*count_;
}

void Exchange::Begin() {
  if (auto program = service_.programs.Loaded(call_.program)) return Launch(*program);
  auto load = [self = shared_from_this()](host::Compiling compiling) {
    return self->service_.programs.Load(self->call_.program, compiling);
  };
  auto launch = [self = shared_from_this()](Result<std::string> program) {
    self->service_.post([self, program = std::move(program)] { self->Launch(program); });
  };
  if (!service_.Run(call_.username, std::move(load), std::move(launch))) {
    Respond(503, "too many installations and first launches are waiting; try again later");
  }
}

void Exchange::Launch(const Result<std::string>& program) {
  if (client_ == nullptr) return;
  if (!program) {
    const bool missing = program.error().code == Code::kNotFound;
    return Respond(missing ? 404 : 500, program.error().text);
  }
  const wasm::HttpRequest request{.method = call_.method,
                                  .target = call_.target,
                                  .authority = call_.authority,
                                  .secure = call_.secure,
                                  .headers = call_.headers,
                                  .input = call_.input};
  ++service_.answering;
  auto process = service_.engine.Serve(
      *program, request, {.username = call_.username, .listener = shared_from_this()});
  if (!process) {
    --service_.answering;
    const Code code = process.error().code;
    return Respond(code == Code::kInvalid ? 404 : 503, process.error().text);
  }
  ++service_.launches;
  {
    std::lock_guard lock(mutex_);
    process_id_ = (*process)->id();
    if (!exited_) process_ = *std::move(process);
  }
  client_->OnBodyWanted();
}

void Exchange::PassBody(std::string_view piece, bool last) {
  std::shared_ptr<host::Process> process;
  {
    std::lock_guard lock(mutex_);
    process = process_;
  }
  if (process) process->PassBody(piece, last);
}

Exchange::Response Exchange::Take() {
  std::lock_guard lock(mutex_);
  woken_ = false;
  Response taken = std::exchange(response_, {});
  if (waits_) {
    waits_ = false;
    room_.Fire();
  }
  return taken;
}

void Exchange::Leave() {
  client_ = nullptr;
  std::shared_ptr<host::Process> process;
  {
    std::lock_guard lock(mutex_);
    process = std::move(process_);
  }
  if (process) process->Cancel();
}

void Exchange::Wake() {
  service_.post([self = shared_from_this()] {
    if (self->client_ != nullptr) self->client_->OnResponseReady();
  });
}

// A response in place of the inferlet's own.
void Exchange::Respond(uint16_t status, std::string_view text) {
  {
    std::lock_guard lock(mutex_);
    began_ = over_ = woken_ = true;
    response_ = {.status = status,
                 .headers = GuardedHead(call_.guard, "content-type:application/json\n"),
                 .body = ErrorJson(status < 500 ? "invalid_request_error" : "server_error", text),
                 .ended = true,
                 .complete = true};
    process_.reset();
  }
  Wake();
}

nlohmann::json Exchange::About() const {
  return {{"process", process_id_}, {"user", call_.username}, {"program", call_.program}};
}

void Exchange::OnOutput(bool is_stderr, std::string_view bytes) {
  if (is_stderr && stderr_log_.is_on()) stderr_log_.Add(bytes, About());
}

void Exchange::OnBodyTaken() {
  service_.post([self = shared_from_this()] {
    if (self->client_ != nullptr) self->client_->OnBodyWanted();
  });
}

void Exchange::OnResponse(uint16_t status, std::string_view headers) {
  std::lock_guard lock(mutex_);
  if (over_) return;
  began_ = true;
  response_.status = status;
  response_.headers = GuardedHead(call_.guard, headers);
  if (!std::exchange(woken_, true)) Wake();
}

void Exchange::OnResponseBody(std::string_view bytes) {
  std::lock_guard lock(mutex_);
  if (over_) return;
  response_.body.append(bytes);
  if (!std::exchange(woken_, true)) Wake();
}

void Exchange::OnResponseEnd(bool complete) {
  std::lock_guard lock(mutex_);
  if (std::exchange(over_, true)) return;
  response_.ended = true;
  response_.complete = complete;
  if (!std::exchange(woken_, true)) Wake();
}

void Exchange::OnExit(const wasm::Exit& exit) {
  stderr_log_.End(About());
  bool began = false;
  {
    std::lock_guard lock(mutex_);
    exited_ = true;
    process_.reset();
    began = began_;
  }
  if (exit.kind != wasm::Exit::Kind::kReturned && exit.kind != wasm::Exit::Kind::kCancelled) {
    service_.log.OfUser(call_.username, "an HTTP inferlet failed",
                        {{"program", call_.program}, {"why", exit.text.substr(0, 4096)}});
  }
  if (began) {
    OnResponseEnd(false);
  } else {
    const std::string line = exit.text.substr(0, exit.text.find('\n'));
    Respond(500, "the inferlet failed: " + (line.empty() ? "it gave no response" : line));
  }
  --service_.answering;  // last, because the server may be destroyed once none is left
}

bool Exchange::Full() {
  std::lock_guard lock(mutex_);
  if (over_ || response_.body.size() < kMostUnsentBytes) return false;
  room_.Clear();
  waits_ = true;
  return true;
}

}  // namespace pie::server
