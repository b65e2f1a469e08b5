#include "server/server.h"

#include <utility>
// clang-format off
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
// clang-format on
#include <sys/resource.h>

#include <algorithm>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "server/daemons.h"
#include "server/socket.h"

namespace pie::server {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

namespace {

constexpr auto kSweepEvery = std::chrono::seconds(1);
// When there are too many connections, a stranger that has been connected for longer than this
// gives way to a new one.
constexpr auto kStranger = std::chrono::seconds(2);
constexpr auto kMakePlaceEvery = std::chrono::milliseconds(100);  // for one address
constexpr size_t kMostAddresses = 4'096;                          // remembered addresses
constexpr auto kDrainLook = std::chrono::milliseconds(50);
constexpr auto kCancelled = std::chrono::seconds(5);  // time that cancelled processes have to end
constexpr auto kFarewell = std::chrono::seconds(2);   // time for closing handshakes

// Each socket is a file, so the server raises its limit of open files as far as it may.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Status LoadTls(asio::ssl::context& context, const ServerOptions& options) {
  ErrorCode error;
  std::ignore =
      context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                              asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                              asio::ssl::context::no_tlsv1_1,
                          error);
  // A handshake costs much, so a connection has one.
  SSL_CTX_set_options(context.native_handle(), SSL_OP_NO_RENEGOTIATION);
  if (context.use_certificate_chain_file(options.tls_cert, error)) {
    return Fail(Code::kInvalid, "cannot use the certificate {}: {}", options.tls_cert,
                error.message());
  }
  if (context.use_private_key_file(options.tls_key, asio::ssl::context::pem, error)) {
    return Fail(Code::kInvalid, "cannot use the key {}: {}", options.tls_key, error.message());
  }
  return {};
}

}  // namespace

struct Server::Impl {
  Impl(ServerOptions the_options, host::Engine& engine, Registry& registry, Auth& auth, Log& log)
      : options(std::move(the_options)),
        tls(asio::ssl::context::tls_server),
        service(
            engine, registry, auth, log, options.limits, options.max_processes,
            [this](std::function<void()> f) { asio::post(io, std::move(f)); }, options.routes,
            std::move(options.page), WebAccess(options.web, options.host)),
        io(1),
        acceptor(io),
        daemons(io, service, sockets),
        sweep(io),
        retry(io) {
    service.daemons = &daemons;
  }

  Status Listen();
  void Accept();
  bool MakePlace(const std::string& address);
  void SweepLater();
  void Drained(std::chrono::steady_clock::time_point deadline);
  void Farewell(std::chrono::steady_clock::time_point deadline);

  void SayGoodbye();

  ServerOptions options;
  asio::ssl::context tls;
  Service service;
  Sockets sockets;
  asio::io_context io;  // its handlers hold sockets, which use the members above
  tcp::acceptor acceptor;
  Daemons daemons;
  asio::steady_timer sweep, retry;
  // When a connection was last closed to make place for this address.
  std::unordered_map<std::string, std::chrono::steady_clock::time_point> made_place;
  uint16_t port = 0;
  std::thread thread;
};

Status Server::Impl::Listen() {
  ErrorCode error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return Fail(Code::kInvalid, "cannot resolve the address '{}' to listen on: {}", options.host,
                error.message());
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  if (!endpoint.address().is_loopback() && !service.auth.enabled()) {
    return Fail(Code::kInvalid,
                "other machines can reach {}, and authentication is off: anyone could run programs "
                "here. Set auth.enabled = true and add keys with `pie auth add`, or listen on "
                "127.0.0.1",
                options.host);
  }
  if (!options.tls_cert.empty()) PIE_RETURN_IF_ERROR(LoadTls(tls, options));
  if (acceptor.open(endpoint.protocol(), error) ||
      acceptor.set_option(tcp::acceptor::reuse_address(true), error) ||
      acceptor.bind(endpoint, error) || acceptor.listen(4096, error)) {
    return Fail(Code::kUnavailable, "cannot listen on {}:{}: {}; try another --port", options.host,
                options.port, error.message());
  }
  port = acceptor.local_endpoint(error).port();
  return {};
}

void Server::Impl::Accept() {
  acceptor.async_accept([this](ErrorCode error, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (error) {
      // Most likely the limit of open files is reached; try again later.
      service.log.Write(Log::Level::kWarning, "cannot accept", {{"why", error.message()}});
      // The sweep goes on meanwhile: it closes connections of strangers.
      retry.expires_after(kSweepEvery);
      return retry.async_wait([this](ErrorCode cancelled) {
        if (!cancelled) Accept();
      });
    }
    Accept();  // first: what follows may throw
    ErrorCode gone;
    const std::string address = NetworkOf(socket.remote_endpoint(gone).address());
    if (service.connections >= service.limits.max_connections && !MakePlace(address)) {
      ++service.refused;
    } else {
      MakeSocket(std::move(socket), options.tls_cert.empty() ? nullptr : &tls, service, sockets)
          ->Start();
    }
  });
}

// Closes a stranger's connection when there are too many connections. A client that means to log in
// has usually done so within kStranger. If no stranger is that old, one gives way whose address has
// more strangers than the address of the new connection, so that many connections from one address
// cannot keep out others.
bool Server::Impl::MakePlace(const std::string& address) {
  const auto now = std::chrono::steady_clock::now();
  if (made_place.size() > kMostAddresses) made_place.clear();
  auto& last = made_place[address];
  if (now - last < kMakePlaceEvery) return false;  // all sockets are looked at, which costs
  last = now;
  struct OfAddress {
    size_t strangers = 0;
    Socket* oldest = nullptr;
  };
  std::unordered_map<std::string_view, OfAddress> addresses;
  std::vector<Socket*> late;
  for (Socket* socket : sockets) {
    if (!socket->unknown()) continue;
    if (now - socket->since > kStranger) late.push_back(socket);
    OfAddress& of = addresses[socket->address()];
    ++of.strangers;
    if (of.oldest == nullptr || socket->since < of.oldest->since) of.oldest = socket;
  }
  if (late.empty() && !addresses.empty()) {
    const size_t own = addresses[address].strangers;
    const auto most = std::ranges::max_element(
        addresses, {}, [](const auto& entry) { return entry.second.strangers; });
    if (most->second.strangers > own + 1) late.push_back(most->second.oldest);
  }
  for (Socket* socket : late) socket->CloseAtOnce();
  return !late.empty();
}

void Server::Impl::SweepLater() {
  sweep.expires_after(kSweepEvery);
  sweep.async_wait([this](ErrorCode error) {
    if (error) return;
    SweepLater();  // first: what follows may throw
    const auto late =
        std::chrono::steady_clock::now() - std::chrono::seconds(service.limits.auth_timeout_secs);
    std::vector<Socket*> unknown;
    for (Socket* socket : sockets) {
      if (socket->since < late && socket->unknown()) unknown.push_back(socket);
    }
    for (Socket* socket : unknown) socket->CloseGently("authentication timed out");
    service.sessions.Sweep();
    std::erase_if(service.relays, [](const Service::UsersRelay& of_user) {
      const auto relay = of_user.relay.lock();
      if (relay) relay->Expire(std::chrono::steady_clock::now());
      return relay == nullptr;
    });
  });
}

void Server::Impl::Drained(std::chrono::steady_clock::time_point deadline) {
  const auto now = std::chrono::steady_clock::now();
  if ((service.sessions.running() > 0 && now < deadline + kCancelled) ||
      (*service.exchanges > 0 && now < deadline)) {
    if (now >= deadline) service.sessions.CancelAll();
    sweep.expires_after(kDrainLook);
    return sweep.async_wait([this, deadline](ErrorCode) { Drained(deadline); });
  }
  // Posted, so that it runs after the last events of the processes, which are already posted.
  asio::post(io, [this] { SayGoodbye(); });
}

void Server::Impl::SayGoodbye() {
  const std::vector<Socket*> all(sockets.begin(), sockets.end());
  for (Socket* socket : all) socket->CloseGently("the server is shutting down");
  Farewell(std::chrono::steady_clock::now() + kFarewell);
}

void Server::Impl::Farewell(std::chrono::steady_clock::time_point deadline) {
  if (sockets.empty() || std::chrono::steady_clock::now() >= deadline) return io.stop();
  sweep.expires_after(kDrainLook);
  sweep.async_wait([this, deadline](ErrorCode) { Farewell(deadline); });
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options, host::Engine& engine,
                                              Registry& registry, Auth& auth, Log& log) {
  RaiseFileLimit();
  auto impl = std::make_unique<Impl>(std::move(options), engine, registry, auth, log);
  PIE_RETURN_IF_ERROR(impl->Listen());
  impl->Accept();
  impl->SweepLater();
  impl->thread = std::thread([raw = impl.get()] {
    pthread_setname_np(pthread_self(), "pie-io");
    // An exception of one handler, for example when memory runs out, must not end all connections.
    while (true) {
      try {
        raw->io.run();
        return;
      } catch (const std::exception& error) {
        raw->service.log.Write(Log::Level::kError, "a handler failed", {{"why", error.what()}});
      }
    }
  });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::~Server() {
  impl_->io.stop();
  Wait();
  impl_->service.turns.Clear();
  impl_->service.Stop();
  // Processes use sessions and connections until they have ended.
  for (Socket* socket : std::vector<Socket*>(impl_->sockets.begin(), impl_->sockets.end())) {
    socket->CloseAtOnce();  // cancels the inferlets that answer HTTP requests
  }
  while (impl_->service.sessions.running() > 0 || impl_->service.answering > 0) {
    impl_->service.sessions.CancelAll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

uint16_t Server::port() const {
  return impl_->port;
}

Service& Server::service() {
  return impl_->service;
}

void Server::Drain() {
  asio::post(impl_->io, [impl = impl_.get()] {
    if (impl->service.draining.exchange(true)) return;
    ErrorCode ignored;
    std::ignore = impl->acceptor.close(ignored);
    impl->daemons.CloseAll();
    impl->sweep.cancel();
    impl->retry.cancel();
    impl->Drained(std::chrono::steady_clock::now() +
                  std::chrono::seconds(impl->options.drain_secs));
  });
}

void Server::Wait() {
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace pie::server
