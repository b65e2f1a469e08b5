// The requests of a client that is authenticated.
#include <utility>

#include "base/utf8.h"
#include "server/connection.h"
#include "server/daemons.h"
#include "server/status.h"
#include "server/watch.h"

namespace pie::server {
namespace {

constexpr size_t kMostEchoedBytes = 128;  // of what a client sent, in an answer to it
// The longest malformed text that is repaired. The thread that does it serves all clients.
constexpr size_t kMostRepairedBytes = 64ull << 10;

}  // namespace

// Programs.

void Connection::Handle(const CheckProgram& message) {
  auto text = [](std::optional<std::string_view> view) { return std::string(view.value_or("")); };
  std::string program = message.version.empty()
                            ? std::string(message.name)
                            : fmt::format("{}@{}", message.name, message.version);
  Defer(message.corr_id,
        [this, program = std::move(program), wasm = text(message.wasm_hash),
         manifest =
             text(message.manifest_hash)](host::Compiling) -> Result<std::optional<std::string>> {
          auto found = service_.programs.registry().Find(program);
          if (!found) {
            if (found.error().code == Code::kNotFound) return "false";
            return std::unexpected(found.error());
          }
          const bool same = (wasm.empty() || wasm == found->wasm_hash) &&
                            (manifest.empty() || manifest == found->manifest_hash);
          return same ? "true" : "false";
        });
}

void Connection::Handle(const AddProgram& message) {
  const std::string key = fmt::format("program {}", message.chunk.hash);
  if (uploads_.Ignored(key, message.chunk)) return;
  if (message.manifest.size() > service_.limits.max_manifest_bytes) {
    return Respond(message.corr_id, false, "the manifest is too large");
  }
  auto whole = uploads_.Add(key, message.chunk, service_.limits.max_upload_bytes);
  if (!whole) return Respond(message.corr_id, false, whole.error().text);
  if (!*whole) return;
  auto upload = std::make_shared<const Uploads::Whole>(**std::move(whole));
  Defer(message.corr_id,
        [this, upload, hash = std::string(message.chunk.hash),
         manifest = std::string(message.manifest), overwrite = message.force_overwrite,
         user = username_](host::Compiling compiling) -> Result<std::optional<std::string>> {
          const std::string* component = &upload->bytes;
          PIE_RETURN_IF_ERROR(CheckHash(*component, hash));
          const bool admin = user == Auth::kInternalUser;
          if (!PIE_TRY(service_.programs.Install(manifest, *component, user, overwrite, admin,
                                                 compiling))) {
            return std::nullopt;
          }
          service_.log.OfUser(user, "program installed", {{"bytes", component->size()}});
          return "Program installed";
        });
}

// Processes.

void Connection::Handle(const LaunchProcess& message) {
  if (service_.draining) return Respond(message.corr_id, false, "the server is shutting down");
  Session::Options options{.username = username_,
                           .capture_outputs = message.capture_outputs,
                           .numbered = message.seen.has_value(),
                           .log = &service_.log};
  if (auto program = service_.programs.Loaded(message.inferlet)) {
    return Launch(message.corr_id, *program, message.input, options, message.token_budget);
  }
  auto held = service_.engine.ChargeInput(username_, message.input.size());
  if (!held) return Respond(message.corr_id, false, held.error().text);
  Defer(
      message.corr_id,
      [this, program = std::string(message.inferlet)](host::Compiling compiling) {
        return service_.programs.Load(program, compiling);
      },
      [this, corr_id = message.corr_id, input = std::string(message.input), options,
       held = std::make_shared<host::Charge>(*std::move(held)),
       budget = message.token_budget](const Result<std::string>& program) {
        held->Release();
        if (!program) return Respond(corr_id, program);
        if (wire_ != nullptr) Launch(corr_id, *program, input, options, budget);
      });
}

void Connection::Launch(uint32_t corr_id, const std::string& program, std::string_view input,
                        const Session::Options& options, std::optional<uint64_t> token_budget) {
  auto launched =
      service_.sessions.Launch(program, input, options, token_budget, shared_from_this());
  if (!launched) return Respond(corr_id, false, launched.error().text);
  ++service_.launches;
  service_.log.Debug("launched",
                     {{"user", username_}, {"program", program}, {"process", (*launched)->id()}});
  Respond(corr_id, true, (*launched)->id());
  Attach(*launched);
}

Connection::Job Connection::LoadDaemon(std::string program) {
  return [this, program = std::move(program)](
             host::Compiling compiling) -> Result<std::optional<std::string>> {
    auto id = PIE_TRY(service_.programs.Load(program, compiling));
    if (id) PIE_RETURN_IF_ERROR(service_.engine.CheckServes(*id));
    return id;
  };
}

void Connection::Handle(const LaunchDaemon& message) {
  if (service_.draining) return Respond(message.corr_id, false, "the server is shutting down");
  if (message.port > UINT16_MAX) {
    return Respond(message.corr_id, false, "launch_daemon: a port is a number from 0 to 65535");
  }
  if (message.input.size() > service_.limits.max_daemon_input_bytes) {
    return Respond(message.corr_id, false,
                   fmt::format("the input of a daemon has {} bytes; at most {} KiB are allowed, "
                               "because each request gets a copy",
                               message.input.size(), service_.limits.max_daemon_input_bytes >> 10));
  }
  auto charged = service_.engine.ChargeInput(username_, message.input.size());
  if (!charged) return Respond(message.corr_id, false, charged.error().text);
  Defer(message.corr_id, LoadDaemon(std::string(message.inferlet)),
        [this, corr_id = message.corr_id, port = static_cast<uint16_t>(message.port),
         inferlet = std::string(message.inferlet), input = std::string(message.input),
         held = std::make_shared<host::Charge>(*std::move(charged))](
            const Result<std::string>& program) {
          if (!program || service_.daemons == nullptr) return Respond(corr_id, program);
          auto daemon =
              service_.daemons->Open({.program = *program, .username = username_, .input = input},
                                     inferlet, port, std::move(*held));
          if (!daemon) return Respond(corr_id, false, daemon.error().text);
          service_.log.OfUser(username_, "daemon opened",
                              {{"program", *program}, {"port", daemon->port}});
          Respond(corr_id, true, daemon->id);
        });
}

// The program is looked up again, so a daemon that was launched without a version gets the newest.
// Until it is loaded, and if that fails, the daemon goes on as it was.
void Connection::Handle(const RestartDaemon& message) {
  if (service_.draining) return Respond(message.corr_id, false, "the server is shutting down");
  const Daemons::Info* found =
      service_.daemons == nullptr ? nullptr : service_.daemons->Find(message.process_id, username_);
  const auto missing = [](std::string_view id) {
    return fmt::format("no daemon '{}' exists (it may have been stopped)", id.substr(0, 64));
  };
  if (found == nullptr) return Respond(message.corr_id, false, missing(message.process_id));
  Defer(message.corr_id, LoadDaemon(found->inferlet),
        [this, corr_id = message.corr_id, id = found->id,
         missing](const Result<std::string>& program) {
          if (!program) return Respond(corr_id, program);
          if (!service_.daemons->Restart(id, username_, *program)) {
            return Respond(corr_id, false, missing(id));
          }
          service_.log.OfUser(username_, "daemon restarted", {{"program", *program}, {"id", id}});
          Respond(corr_id, true, *program);
        });
}

void Connection::Handle(const AttachProcess& message) {
  auto session = service_.sessions.Find(message.process_id, username_);
  if (!session) return Respond(message.corr_id, false, session.error().text);
  if (Status attached = (*session)->Attach(shared_from_this(), message.seen); !attached) {
    return Respond(message.corr_id, false, attached.error().text);
  }
  Respond(message.corr_id, true, "Attached");
  Attach(*session);
}

void Connection::Handle(const TerminateProcess& message) {
  if (service_.daemons != nullptr && service_.daemons->Close(message.process_id, username_)) {
    return Respond(message.corr_id, true, "Terminated");
  }
  auto session = service_.sessions.Find(message.process_id, username_);
  if (session) {
    if (auto process = (*session)->process()) process->Cancel();
    return Respond(message.corr_id, true, "Terminated");
  }
  if (auto process = service_.engine.FindDetached(username_, message.process_id)) {
    process->Cancel();
    return Respond(message.corr_id, true, "Terminated");
  }
  Respond(message.corr_id, false, session.error().text);
}

// For messages that may have no corr_id: then an error is sent as an event of the process.
void Connection::Tell(std::optional<uint32_t> corr_id, std::string_view process_id,
                      const Status& status) {
  if (corr_id) return Respond(*corr_id, status.has_value(), status ? "" : status.error().text);
  if (status || wire_ == nullptr) return;
  const std::string text = fmt::format("[pie] {}\n", status.error().text);
  // An id that no process has may hold any bytes.
  const std::string id = ToValidUtf8(process_id.substr(0, kMostEchoedBytes));
  Send(EncodeEvent(id, EventKind::kStderr, ToValidUtf8(text)));
}

void Connection::Handle(const SignalProcess& message) {
  Tell(message.corr_id, message.process_id, [&]() -> Status {
    const std::string_view text = message.message;
    const size_t valid = ValidUtf8Bytes(text);
    if (valid < text.size() && text.size() > kMostRepairedBytes) {
      return Fail(Code::kInvalid,
                  "the signal was not delivered: its text is not UTF-8 at byte {} of {}", valid,
                  text.size());
    }
    auto session = PIE_TRY(service_.sessions.Find(message.process_id, username_));
    auto process = session->process();
    if (!process)
      return Fail(Code::kCancelled, "the signal was not delivered: the process has ended");
    return process->SendMessage(valid == text.size() ? std::string(text) : ToValidUtf8(text));
  }());
}

void Connection::Handle(const TransferFile& message) {
  const std::string key = fmt::format("file {} {}", message.process_id, message.chunk.hash);
  if (uploads_.Ignored(key, message.chunk)) return;
  bool came = false;
  const Status status = [&]() -> Status {
    auto session = PIE_TRY(service_.sessions.Find(message.process_id, username_));
    const size_t most = service_.engine.limits().max_message_bytes;
    auto whole = PIE_TRY(uploads_.Add(key, message.chunk, most));
    if (!whole) return {};
    files_.push_back({.session = std::move(session),
                      .whole = std::make_shared<Uploads::Whole>(*std::move(whole)),
                      .hash = std::string(message.chunk.hash),
                      .process_id = std::string(message.process_id),
                      .corr_id = message.corr_id});
    ++jobs_;
    came = true;
    return {};
  }();
  if (!status) return Tell(message.corr_id, message.process_id, status);
  if (came && files_.size() == 1) DeliverFirst();
}

// Files are delivered in the order in which they came. Hashing a large one takes a while, so a work
// thread does that.
void Connection::DeliverFirst() {
  const File& file = files_.front();
  auto check = [whole = file.whole,
                hash = file.hash](host::Compiling) -> Result<std::optional<std::string>> {
    PIE_RETURN_IF_ERROR(CheckHash(whole->bytes, hash));
    return "";
  };
  auto deliver = [self = shared_from_this()](Result<std::string> checked) {
    self->service_.post([self, checked = std::move(checked)] { self->Deliver(checked); });
  };
  if (!service_.Run(username_, std::move(check), std::move(deliver))) {
    Deliver(Fail(Code::kExhausted, "too many jobs wait already; send the file again later"));
  }
}

void Connection::Deliver(const Result<std::string>& checked) {
  const File file = std::move(files_.front());
  files_.pop_front();
  --jobs_;
  Tell(file.corr_id, file.process_id, [&]() -> Status {
    if (!checked) return std::unexpected(checked.error());
    auto process = file.session->process();
    if (!process)
      return Fail(Code::kCancelled, "the file was not delivered: the process has ended");
    return process->SendFile(std::move(file.whole->bytes));
  }());
  if (!files_.empty()) DeliverFirst();
  if (wire_ != nullptr) wire_->Ready();
}

void Connection::Handle(const ListProcesses& message) {
  nlohmann::json list = nlohmann::json::array();
  if (service_.daemons != nullptr) {
    for (const Daemons::Info& daemon : service_.daemons->Of(username_)) {
      list.push_back({{"process_id", daemon.id},
                      {"inferlet", daemon.program},
                      {"username", daemon.username},
                      {"attached", false},
                      {"port", daemon.port}});
    }
  }
  // There may be thousands of processes, and other clients must not wait for the list.
  Defer(message.corr_id,
        [this, list = std::move(list),
         user = username_](host::Compiling) mutable -> Result<std::optional<std::string>> {
          for (const auto& session : service_.sessions.Of(user)) {
            list.push_back({{"process_id", session->id()},
                            {"inferlet", session->options().program},
                            {"username", session->options().username},
                            {"attached", session->attached()}});
          }
          for (const auto& process : service_.engine.DetachedOf(user)) {
            list.push_back({{"process_id", process->id()},
                            {"inferlet", process->options().program},
                            {"username", user},
                            {"attached", false}});
          }
          return list.dump();
        });
}

// Other messages.

void Connection::Handle(const Ping& message) {
  Respond(message.corr_id, true, "Pong");
}

void Connection::Handle(const Query& message) {
  if (message.subject == "model_status") {
    return Respond(message.corr_id, true, ModelStatus(service_.engine).dump());
  }
  if (message.subject == "program") {
    return Defer(message.corr_id,
                 [this, program = std::string(message.record)](
                     host::Compiling) -> Result<std::optional<std::string>> {
                   return DescribeProgram(service_, program);
                 });
  }
  if (message.subject == "watch") {
    const auto since_us = WatchedSince(message.record);
    if (!since_us) return Respond(message.corr_id, false, since_us.error().text);
    if (const std::string* recent = watching_.recent()) {
      return Respond(message.corr_id, true, *recent);
    }
    return Defer(
        message.corr_id,
        [this, user = username_, since = *since_us](host::Compiling)
            -> Result<std::optional<std::string>> { return DescribeEngine(service_, user, since); },
        [this, corr_id = message.corr_id](const Result<std::string>& answer) {
          if (answer) watching_.Keep(*answer);
          Respond(corr_id, answer);
        });
  }
  if (message.subject == "output") {
    return Defer(message.corr_id,
                 [this, user = username_, record = std::string(message.record)](
                     host::Compiling) -> Result<std::optional<std::string>> {
                   return WatchedOutput(service_, user, record);
                 });
  }
  if (message.subject == "library") {
    return Defer(message.corr_id,
                 [this, user = username_, servers = McpServersOf(service_, username_)](
                     host::Compiling) -> Result<std::optional<std::string>> {
                   return DescribeLibrary(service_, user, servers);
                 });
  }
  Respond(message.corr_id, false,
          fmt::format("unknown subject '{}'; ask for 'model_status', 'program', 'watch', 'output' "
                      "or 'library'",
                      message.subject.substr(0, 64)));
}

// MCP servers of the client.

void Connection::Handle(const RegisterMcpServer& message) {
  const bool first = relay_->Names().empty();
  // The client itself starts and asks the server; the rest of the message is for the record.
  const Status registered = relay_->Register(message.name, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self) return;
    self->service_.post([self] {
      if (self->wire_ != nullptr) self->wire_->Ready();
    });
  });
  if (!registered) return Respond(message.corr_id, false, registered.error().text);
  if (first) service_.relays.push_back({username_, relay_});
  service_.log.Debug(
      "MCP server registered",
      {{"user", username_}, {"server", message.name}, {"transport", message.transport}});
  Respond(message.corr_id, true, "Registered");
}

void Connection::Handle(const McpResponse& message) {
  relay_->Answer(message.corr_id, message.ok, message.result);
}

}  // namespace pie::server
