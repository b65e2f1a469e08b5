// Daemons: ports of this machine on which HTTP inferlets answer (launch_daemon). Each request runs
// in an instance of its own, on behalf of the user who opened the port. A daemon is listed and
// stopped like a process, and can be restarted (restart_daemon). IO thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>  // before Asio 1.74, which forgets it
#include <vector>
// clang-format off
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
// clang-format on

#include "base/result.h"
#include "server/http.h"
#include "server/service.h"
#include "server/socket.h"

namespace pie::server {

class Daemons {
 public:
  Daemons(boost::asio::io_context& io, Service& service, Sockets& sockets)
      : io_(io), service_(service), sockets_(sockets) {}

  struct Info {
    std::string id;
    std::string inferlet;  // as the client named it, with or without a version
    std::string program;   // the program that answers now, with its version
    std::string username;
    uint16_t port = 0;
  };
  // Listens on 127.0.0.1. Port 0 means any free port. `input` is the charge for the input of the
  // daemon.
  Result<Info> Open(const Door& door, std::string inferlet, uint16_t port, host::Charge input);
  std::vector<Info> Of(std::string_view user) const;
  // Daemons of other users count as not found, here and below. The pointer is valid until the
  // daemon is closed.
  const Info* Find(std::string_view id, std::string_view user) const;
  // Lets `program` answer from now on. The daemon keeps its id, its port and its input. Requests
  // that are being answered are cancelled, and all connections to the port are closed.
  bool Restart(std::string_view id, std::string_view user, const std::string& program);
  // Closes the port. Requests that are being answered go on, and their connections take no others.
  bool Close(std::string_view id, std::string_view user);
  void CloseAll() { daemons_.clear(); }

 private:
  struct Daemon;
  void Accept(const std::shared_ptr<Daemon>& daemon);
  // The connections that came through this door.
  std::vector<Socket*> Through(const Door* door) const;

  boost::asio::io_context& io_;
  Service& service_;
  Sockets& sockets_;
  uint64_t next_ = 1;
  std::map<std::string, std::shared_ptr<Daemon>, std::less<>> daemons_;
};

}  // namespace pie::server
