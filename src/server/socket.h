// Sockets: accepted connections. Only this file's source and what it includes use Boost.Beast.
#pragma once

#include <utility>  // before Asio 1.74, which forgets it
// clang-format off
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
// clang-format on
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "server/service.h"

namespace pie::server {

struct Door;

// The name by which strangers at an address take turns and share places. Whoever has one address of
// version 6 usually has the 2^64 others of its network.
std::string NetworkOf(const boost::asio::ip::address& address);

// One accepted connection. IO thread.
class Socket {
 public:
  virtual ~Socket() = default;
  virtual void Start() = 0;
  // Sends all waiting frames, then closes.
  virtual void CloseGently(const std::string& reason) = 0;
  virtual void CloseAtOnce() = 0;
  // Lets the HTTP request that is being answered end, and takes no other.
  virtual void CloseWhenIdle() = 0;
  // True until the client is authenticated.
  virtual bool unknown() const = 0;
  // NetworkOf the peer.
  virtual std::string_view address() const = 0;
  // The daemon's port through which it came; null: the server's own port.
  virtual const Door* door() const = 0;
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

using Sockets = std::unordered_set<Socket*>;

// The socket keeps itself alive, and is in `all`, until it is closed. `tls` may be null.
std::shared_ptr<Socket> MakeSocket(boost::asio::ip::tcp::socket socket,
                                   boost::asio::ssl::context* tls, Service& service, Sockets& all,
                                   std::shared_ptr<const Door> door = nullptr);

}  // namespace pie::server
