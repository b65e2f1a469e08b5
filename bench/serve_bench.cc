// pie-serve-bench: measures a server from its clients. It opens many connections from one thread,
// writes the protocol's frames itself, and prints one flat JSON object.
//
//   pie-serve-bench ping|launch|rate|stream|idle --port P --clients N --count N …
#include <utility>
// clang-format off
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
// clang-format on
#include <boost/beast/core.hpp>
#include <boost/beast/websocket.hpp>

#define MSGPACK_NO_BOOST
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <msgpack.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace ws = beast::websocket;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

struct Options {
  std::string mode, program, input = "{}";
  uint16_t port = 8080;
  int clients = 1, count = 1000, repeat = 1, pid = 0;
};

// Frames that are sent many times. They are packed once.
std::string Message(std::string_view type,
                    std::initializer_list<std::pair<const char*, std::string>> texts,
                    bool capture = false) {
  msgpack::sbuffer buffer;
  msgpack::packer<msgpack::sbuffer> packer(buffer);
  packer.pack_map(static_cast<uint32_t>(texts.size() + 2 + (capture ? 1 : 0)));
  packer.pack(std::string("type")).pack(std::string(type));
  packer.pack(std::string("corr_id")).pack(1u);
  if (capture) packer.pack(std::string("capture_outputs")).pack(true);
  for (const auto& [key, value] : texts) packer.pack(std::string(key)).pack(value);
  return {buffer.data(), buffer.size()};
}

// One connection. `on_frame` gets every frame and tells responses from events by their bytes.
class Client : public std::enable_shared_from_this<Client> {
 public:
  explicit Client(asio::io_context& io) : ws_(io) {}

  void Connect(const tcp::endpoint& endpoint, std::function<void()> then) {
    beast::get_lowest_layer(ws_).connect(endpoint);
    beast::get_lowest_layer(ws_).socket().set_option(tcp::no_delay(true));
    ws_.binary(true);
    ws_.handshake("127.0.0.1", "/");
    on_frame = [this, then = std::move(then)](std::string_view) {
      on_frame = nullptr;
      then();
    };
    Send(Message("auth_identify", {{"username", "bench"}}));
    Read();
  }
  void Send(std::string frame) {
    out_ = std::move(frame);
    ws_.write(asio::buffer(out_));  // a small frame is sent at once
  }
  std::function<void(std::string_view)> on_frame;

 private:
  void Read() {
    ws_.async_read(buffer_, [self = shared_from_this()](beast::error_code error, size_t) {
      if (error) return;
      const auto data = self->buffer_.cdata();
      const auto handler = self->on_frame;
      if (handler) handler({static_cast<const char*>(data.data()), data.size()});
      self->buffer_.consume(data.size());
      self->Read();
    });
  }
  ws::stream<beast::tcp_stream> ws_;
  beast::flat_buffer buffer_;
  std::string out_;
};

bool IsEnd(std::string_view frame) {
  return frame.find("\xa6return") != std::string_view::npos ||
         frame.find(
             "\xa5"
             "error") != std::string_view::npos;
}
bool IsEvent(std::string_view frame) {
  return frame.find("process_event") != std::string_view::npos;
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), endpoint_(asio::ip::make_address("127.0.0.1"), options.port) {}

  std::string Run() {
    Connect();
    if (options_.mode == "ping") return Sequential(Message("ping", {}), false);
    if (options_.mode == "launch") return Sequential(Launch(), true);
    if (options_.mode == "rate") return Rate();
    if (options_.mode == "stream") return Stream();
    return "{}";
  }
  // The server's memory while all connections are open and idle.
  std::string Idle() {
    const long before = ResidentKb();
    Connect();
    return fmt::format("{{\"mb\": {:.1f}}}", static_cast<double>(ResidentKb() - before) / 1024);
  }

 private:
  std::string Launch() const {
    return Message("launch_process", {{"inferlet", options_.program}, {"input", options_.input}},
                   true);
  }
  void Connect() {
    size_t known = 0;
    for (int i = 0; i < options_.clients; ++i) {
      clients_.push_back(std::make_shared<Client>(io_));
      clients_.back()->Connect(endpoint_, [&] {
        if (++known == static_cast<size_t>(options_.clients)) io_.stop();
      });
      io_.poll();
    }
    if (!io_.stopped()) io_.run();
    io_.restart();
  }
  long ResidentKb() const {
    std::string line;
    long pages = 0;
    if (std::FILE* file = std::fopen(fmt::format("/proc/{}/statm", options_.pid).c_str(), "r")) {
      if (std::fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
      std::fclose(file);
    }
    return pages * 4;
  }

  // Times of one client's requests, one after another; of launches, until the process has ended.
  std::string Sequential(const std::string& frame, bool until_end) {
    std::vector<double> times;
    auto client = clients_[0];
    Clock::time_point sent;
    client->on_frame = [&](std::string_view got) {
      if (until_end && !(IsEvent(got) && IsEnd(got))) return;
      times.push_back(Seconds(sent));
      if (times.size() == static_cast<size_t>(options_.count)) return io_.stop();
      sent = Clock::now();
      client->Send(frame);
    };
    sent = Clock::now();
    client->Send(frame);
    io_.run();
    std::ranges::sort(times);
    return fmt::format("{{\"p50_ms\": {:.4f}, \"p99_ms\": {:.4f}}}", times[times.size() / 2] * 1e3,
                       times[times.size() * 99 / 100] * 1e3);
  }

  // Launches per second: every client launches, waits for the end, and launches again.
  std::string Rate() {
    int launched = 0, ended = 0;
    const std::string frame = Launch();
    const auto start = Clock::now();
    for (auto& client : clients_) {
      client->on_frame = [&, raw = client.get()](std::string_view got) {
        if (!(IsEvent(got) && IsEnd(got))) return;
        if (++ended == options_.count) return io_.stop();
        if (launched < options_.count) {
          ++launched;
          raw->Send(frame);
        }
      };
      ++launched;
      client->Send(frame);
    }
    io_.run();
    return fmt::format("{{\"per_s\": {:.1f}}}", options_.count / Seconds(start));
  }

  // Tokens per second: every client launches `repeat` times, one after another. Every event of a
  // launch but the last is a token. `tpot_ms` is the time from a launch's first token to its last,
  // by the tokens in between, median.
  std::string Stream() {
    struct Launched {
      uint64_t tokens = 0;
      Clock::time_point first, last;
    };
    uint64_t tokens = 0;
    std::vector<double> tpot_ms;
    std::vector<Launched> launched(clients_.size());
    size_t next = 0;
    int ended = 0;
    int left = options_.clients * (options_.repeat - 1);
    const std::string frame = Launch();
    const auto start = Clock::now();
    for (auto& client : clients_) {
      client->on_frame = [&, raw = client.get(), own = &launched[next]](std::string_view got) {
        if (!IsEvent(got)) return;
        if (!IsEnd(got)) {
          ++tokens;
          own->last = Clock::now();
          if (own->tokens++ == 0) own->first = own->last;
          return;
        }
        if (own->tokens > 1) {
          const std::chrono::duration<double, std::milli> all = own->last - own->first;
          tpot_ms.push_back(all.count() / static_cast<double>(own->tokens - 1));
        }
        *own = {};
        if (++ended == options_.clients * options_.repeat) {
          io_.stop();
        } else if (left > 0) {
          --left;
          raw->Send(frame);
        }
      };
      ++next;
      client->Send(frame);
    }
    io_.run();
    const double tps = static_cast<double>(tokens) / Seconds(start);
    std::ranges::sort(tpot_ms);
    const double tpot = tpot_ms.empty() ? 0 : tpot_ms[tpot_ms.size() / 2];
    return fmt::format("{{\"tps\": {:.1f}, \"tpot_ms\": {:.4f}}}", tps, tpot);
  }

  const Options options_;
  const tcp::endpoint endpoint_;
  asio::io_context io_{1};
  std::vector<std::shared_ptr<Client>> clients_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures a server from its clients.", "pie-serve-bench");
  app.add_option("mode", options.mode)->required();
  app.add_option("--port", options.port);
  app.add_option("--clients", options.clients);
  app.add_option("--count", options.count);
  app.add_option("--repeat", options.repeat);
  app.add_option("--program", options.program);
  app.add_option("--input", options.input);
  app.add_option("--pid", options.pid, "of the server, for its memory");
  CLI11_PARSE(app, argc, argv);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  Bench bench(options);
  fmt::print("{}\n", options.mode == "idle" ? bench.Idle() : bench.Run());
  return 0;
}
