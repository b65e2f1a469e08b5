#include "socket.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <array>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <chrono>

#include "bounds.h"
#include "pie_client/errors.h"

namespace pie_client {
namespace {

namespace beast = boost::beast;
namespace ws = beast::websocket;
namespace ssl = asio::ssl;
using beast::error_code;
using tcp = asio::ip::tcp;
using Plain = beast::tcp_stream;
using Tls = beast::ssl_stream<beast::tcp_stream>;

constexpr auto kOpen = std::chrono::seconds(20);
constexpr auto kClose = std::chrono::seconds(3);
constexpr auto kIdle = std::chrono::seconds(60);

Address Parse(const std::string& uri) {
  Address address;
  std::string_view rest = uri;
  if (rest.starts_with("wss://")) {
    address.tls = true;
    rest.remove_prefix(6);
  } else if (rest.starts_with("ws://")) {
    rest.remove_prefix(5);
  } else {
    throw ConnectionLost("'" + uri +
                         "' is not a valid address: use ws://HOST:PORT or wss://HOST:PORT");
  }
  const size_t slash = rest.find('/');
  address.path = slash == std::string_view::npos ? "/" : rest.substr(slash);
  rest = rest.substr(0, slash);
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string_view::npos && rest.find(']', colon) == rest.npos;
  address.host = rest.substr(0, has_port ? colon : rest.npos);
  address.port = has_port ? std::string(rest.substr(colon + 1)) : address.tls ? "443" : "80";
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  return address;
}

template <class Stream>
class SocketOn : public Socket {
 public:
  template <class... Args>
  explicit SocketOn(const asio::any_io_executor& executor, Args&&... args)
      : ws_(executor, std::forward<Args>(args)...) {}

  asio::awaitable<void> Open(Address address) override {
    tcp::resolver resolver(ws_.get_executor());
    const auto found =
        co_await resolver.async_resolve(address.host, address.port, asio::use_awaitable);
    auto& stream = beast::get_lowest_layer(ws_);
    stream.expires_after(kOpen);
    co_await stream.async_connect(found, asio::use_awaitable);
    stream.socket().set_option(tcp::no_delay(true));
    if constexpr (std::is_same_v<Stream, Tls>) {
      SSL_set_tlsext_host_name(ws_.next_layer().native_handle(), address.host.c_str());
      ws_.next_layer().set_verify_callback(ssl::host_name_verification(address.host));
      co_await ws_.next_layer().async_handshake(ssl::stream_base::client, asio::use_awaitable);
    }
    stream.expires_never();  // Beast's WebSocket has its own clock
    ws_.set_option(ws::stream_base::timeout{kOpen, kIdle, true});
    const std::string host = address.host + ":" + address.port;
    co_await ws_.async_handshake(host, address.path, asio::use_awaitable);
    ws_.set_option(ws::stream_base::timeout{kClose, kIdle, true});
    ws_.read_message_max(kMaxIncomingBytes);
    ws_.binary(true);
  }

  asio::awaitable<std::string_view> Read() override {
    buffer_.consume(buffer_.size());
    if (buffer_.capacity() > kKeptBufferBytes) buffer_.shrink_to_fit();
    error_code error;
    co_await ws_.async_read(buffer_, asio::redirect_error(asio::use_awaitable, error));
    if (error) throw ConnectionLost(Reason(error));
    const auto data = buffer_.data();
    co_return std::string_view(static_cast<const char*>(data.data()), data.size());
  }

  asio::awaitable<void> Write(std::string_view frame) override {
    error_code error;
    co_await ws_.async_write(asio::buffer(frame), asio::redirect_error(asio::use_awaitable, error));
    if (error) throw ConnectionLost(Reason(error));
  }

  asio::awaitable<void> Close() override {
    error_code ignored;
    co_await ws_.async_close(ws::close_code::normal,
                             asio::redirect_error(asio::use_awaitable, ignored));
    Abort();
  }

  std::string CertificateHash() override {
    std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
    unsigned size = 0;
    if constexpr (std::is_same_v<Stream, Tls>) {
      const std::unique_ptr<X509, decltype(&X509_free)> certificate(
          SSL_get1_peer_certificate(ws_.next_layer().native_handle()), X509_free);
      if (certificate) X509_digest(certificate.get(), EVP_sha256(), hash.data(), &size);
    }
    return std::string(reinterpret_cast<const char*>(hash.data()), size);
  }

  void Abort() override { beast::get_lowest_layer(ws_).close(); }

 private:
  std::string Reason(error_code error) const {
    if (error != ws::error::closed) {
      return "the connection to the server broke: " + error.message();
    }
    const auto& said = ws_.reason();
    const std::string reason = said.reason.empty() ? "no reason given" : said.reason.c_str();
    return "the server closed the connection: " + reason + " (" + std::to_string(said.code) + ")";
  }

  static constexpr size_t kKeptBufferBytes = 1 << 20;
  ws::stream<Stream> ws_;
  beast::flat_buffer buffer_;
};

ssl::context Trust(const std::string& ca_file) {
  ssl::context context(ssl::context::tls_client);
  context.set_verify_mode(ssl::verify_peer);
  if (ca_file.empty()) {
    context.set_default_verify_paths();
  } else {
    context.load_verify_file(ca_file);
  }
  return context;
}

// The TLS context must outlive the socket, so it is in a base class.
struct TrustHolder {
  ssl::context context;
};
class TlsSocket final : private TrustHolder, public SocketOn<Tls> {
 public:
  TlsSocket(const asio::any_io_executor& executor, const std::string& ca_file)
      : TrustHolder{Trust(ca_file)}, SocketOn<Tls>(executor, context) {}
};

}  // namespace

asio::awaitable<std::shared_ptr<Socket>> Socket::Connect(std::string uri, std::string ca_file) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const Address address = Parse(uri);
  std::string why;
  try {
    std::shared_ptr<Socket> socket;
    if (address.tls) {
      socket = std::make_shared<TlsSocket>(executor, ca_file);
    } else {
      socket = std::make_shared<SocketOn<Plain>>(executor);
    }
    co_await socket->Open(address);
    co_return socket;
  } catch (const std::exception& error) {
    why = error.what();
  }
  throw ConnectionLost("cannot connect to " + uri + ": " + why);
}

}  // namespace pie_client
