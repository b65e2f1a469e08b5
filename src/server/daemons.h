// Daemons: ports of this machine on which HTTP inferlets answer (launch_daemon). Each request runs
// in an instance of its own, on behalf of the user who opened the port. A daemon is listed and
// stopped like a process. IO thread.
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
    std::string program;
    std::string username;
    uint16_t port = 0;
  };
  // Listens on 127.0.0.1. Port 0 means any free port. `input` is the charge for the input of the
  // daemon.
  Result<Info> Open(const Door& door, uint16_t port, host::Charge input);
  std::vector<Info> Of(std::string_view user) const;
  // Closes the port; requests that are being answered go on. Daemons of other users count as not
  // found.
  bool Close(std::string_view id, std::string_view user);
  void CloseAll() { daemons_.clear(); }

 private:
  struct Daemon;
  void Accept(const std::shared_ptr<Daemon>& daemon);

  boost::asio::io_context& io_;
  Service& service_;
  Sockets& sockets_;
  uint64_t next_ = 1;
  std::map<std::string, std::shared_ptr<Daemon>, std::less<>> daemons_;
};

}  // namespace pie::server
