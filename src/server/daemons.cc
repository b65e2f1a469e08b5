#include "server/daemons.h"

#include <boost/asio/steady_timer.hpp>

namespace pie::server {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

namespace {

constexpr auto kRetryAfter = std::chrono::seconds(1);

}  // namespace

struct Daemons::Daemon {
  Daemon(asio::io_context& io, const Door& the_door)
      : door(std::make_shared<const Door>(the_door)), acceptor(io), retry(io) {}
  std::shared_ptr<const Door> door;  // connections hold the door through which they came
  Info info;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  host::Charge place, input;
};

Result<Daemons::Info> Daemons::Open(const Door& door, std::string inferlet, uint16_t port,
                                    host::Charge input) {
  auto daemon = std::make_shared<Daemon>(io_, door);
  daemon->place = host::Charge(service_.doors.Of(door.username));
  daemon->input = std::move(input);
  if (!daemon->place.Grow(1)) {
    return Fail(Code::kExhausted,
                "the daemons of this user have reached their share (of {} for all users); stop one "
                "first",
                service_.limits.max_daemons);
  }
  const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), port);
  ErrorCode error;
  if (daemon->acceptor.open(endpoint.protocol(), error) ||
      daemon->acceptor.set_option(tcp::acceptor::reuse_address(true), error) ||
      daemon->acceptor.bind(endpoint, error) || daemon->acceptor.listen(1024, error)) {
    return Fail(Code::kUnavailable, "cannot listen on 127.0.0.1:{}: {}; try another port", port,
                error.message());
  }
  daemon->info = {.id = fmt::format("{}-daemon-{}", service_.engine.id(), next_++),
                  .inferlet = std::move(inferlet),
                  .program = door.program,
                  .username = door.username,
                  .port = daemon->acceptor.local_endpoint(error).port()};
  daemons_[daemon->info.id] = daemon;
  Accept(daemon);
  return daemon->info;
}

void Daemons::Accept(const std::shared_ptr<Daemon>& daemon) {
  // The handler holds no reference: closing a daemon destroys its acceptor.
  daemon->acceptor.async_accept(
      [this, weak = std::weak_ptr(daemon)](ErrorCode error, tcp::socket socket) {
        const auto self = weak.lock();
        if (!self || !self->acceptor.is_open() || error == asio::error::operation_aborted) return;
        if (error) {
          self->retry.expires_after(kRetryAfter);
          return self->retry.async_wait([this, weak](ErrorCode) {
            if (const auto later = weak.lock()) Accept(later);
          });
        }
        if (service_.connections >= service_.limits.max_connections) {
          ++service_.refused;
        } else {
          MakeSocket(std::move(socket), nullptr, service_, sockets_, self->door)->Start();
        }
        Accept(self);
      });
}

std::vector<Daemons::Info> Daemons::Of(std::string_view user) const {
  std::vector<Info> own;
  for (const auto& [id, daemon] : daemons_) {
    if (daemon->info.username == user) own.push_back(daemon->info);
  }
  return own;
}

const Daemons::Info* Daemons::Find(std::string_view id, std::string_view user) const {
  const auto found = daemons_.find(id);
  if (found == daemons_.end() || found->second->info.username != user) return nullptr;
  return &found->second->info;
}

bool Daemons::Restart(std::string_view id, std::string_view user, const std::string& program) {
  if (Find(id, user) == nullptr) return false;
  Daemon& daemon = *daemons_.find(id)->second;
  Door door = *daemon.door;
  door.program = program;
  const auto before = std::exchange(daemon.door, std::make_shared<const Door>(std::move(door)));
  daemon.info.program = program;
  for (Socket* socket : Through(before.get())) socket->CloseAtOnce();
  return true;
}

bool Daemons::Close(std::string_view id, std::string_view user) {
  if (Find(id, user) == nullptr) return false;
  const auto found = daemons_.find(id);
  const auto daemon = found->second;
  daemons_.erase(found);
  for (Socket* socket : Through(daemon->door.get())) socket->CloseWhenIdle();
  return true;
}

std::vector<Socket*> Daemons::Through(const Door* door) const {
  std::vector<Socket*> through;
  for (Socket* socket : sockets_) {
    if (socket->door() == door) through.push_back(socket);
  }
  return through;
}

}  // namespace pie::server
