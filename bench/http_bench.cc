// pie-http-bench: measures an HTTP server from its clients, all of them on one thread. It prints
// one flat JSON object.
//
//   pie-http-bench get    --port P --path / --clients N --count N     requests on kept connections
//   pie-http-bench stream --port P --path /v1/chat/completions --body JSON --clients N --repeat N
//
// "$N" in the body is the number of the request. A stream is a POST whose response is a stream of
// events in the form of the OpenAI API. Every event with a text counts as one token.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
// Boost comes first: fmt of the base would change its headers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;

double MsBetween(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

double At(std::vector<double>& times, double share) {
  if (times.empty()) return 0;
  std::ranges::sort(times);
  return times[std::min(times.size() - 1, static_cast<size_t>(share * times.size()))];
}

struct Options {
  std::string mode, path = "/", body;
  uint16_t port = 8080;
  int clients = 1, count = 1000, repeat = 1;
};

// Shared by all clients of a run.
struct Run {
  const Options options;
  const tcp::endpoint endpoint;
  asio::io_context io{1};
  int left = 0;     // requests that are not sent yet
  int waiting = 0;  // requests that are not answered yet
  std::vector<double> times_ms, first_ms, next_ms;
  uint64_t tokens = 0;
  std::string fault;

  void Answered() {
    if (--waiting == 0) io.stop();
  }
  void Fail(std::string why) {
    if (fault.empty()) fault = std::move(why);
    io.stop();
  }
};

// Sends GET requests over one connection, one after another.
class Getter : public std::enable_shared_from_this<Getter> {
 public:
  explicit Getter(Run& run) : run_(run), stream_(run.io) {
    stream_.connect(run.endpoint);
    stream_.socket().set_option(tcp::no_delay(true));
    request_ = "GET " + run.options.path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  }
  void Next() {
    if (run_.left == 0) return;
    --run_.left;
    sent_ = Clock::now();
    asio::write(stream_, asio::buffer(request_));  // a small request is sent at once
    response_ = {};
    http::async_read(stream_, buffer_, response_,
                     [self = shared_from_this()](beast::error_code error, size_t) {
                       if (error) return self->run_.Fail(error.message());
                       self->OnResponse();
                     });
  }

 private:
  void OnResponse() {
    if (response_.result() != http::status::ok) return run_.Fail(response_.body());
    run_.times_ms.push_back(MsBetween(sent_, Clock::now()));
    Next();
    run_.Answered();
  }

  Run& run_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::response<http::string_body> response_;
  std::string request_;
  Clock::time_point sent_;
};

std::string RequestOf(const Options& options, int number) {
  std::string body = options.body;
  for (size_t at; (at = body.find("$N")) != std::string::npos;) {
    body.replace(at, 2, std::to_string(number));
  }
  return "POST " + options.path +
         " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
         "Connection: close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

// Sends requests whose responses stream, each over a connection of its own.
class Streamer : public std::enable_shared_from_this<Streamer> {
 public:
  explicit Streamer(Run& run) : run_(run) {}
  void Next() {
    if (run_.left == 0) return;
    const std::string request = RequestOf(run_.options, run_.left--);
    text_.clear();
    tokens_ = 0;
    socket_ = std::make_unique<tcp::socket>(run_.io);
    socket_->connect(run_.endpoint);
    socket_->set_option(tcp::no_delay(true));
    sent_ = Clock::now();
    asio::write(*socket_, asio::buffer(request));
    Read();
  }

 private:
  void Read() {
    socket_->async_read_some(asio::buffer(piece_),
                             [self = shared_from_this()](beast::error_code error, size_t size) {
                               self->text_.append(self->piece_, size);
                               self->TakeLines();
                               if (!error) return self->Read();
                               self->OnEnd();
                             });
  }
  // Lines that are no events belong to the head, or to the lengths of chunks.
  void TakeLines() {
    size_t begin = 0;
    for (size_t end; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string_view line = std::string_view(text_).substr(begin, end - begin);
      if (line.starts_with("HTTP/1.1 ") && !line.starts_with("HTTP/1.1 200")) {
        return run_.Fail(text_);
      }
      if (line.starts_with("data: {")) TakeEvent(line.substr(6));
    }
    text_.erase(0, begin);
  }
  void TakeEvent(std::string_view json) {
    const auto event = nlohmann::json::parse(json, nullptr, false);
    if (!event.is_object() || !event.contains("choices") || event["choices"].empty()) return;
    const auto delta = event["choices"][0].value("delta", nlohmann::json::object());
    const auto content = delta.find("content");
    if (content == delta.end() || !content->is_string() || content->empty()) return;
    if (content->get_ref<const std::string&>().empty()) return;
    last_ = Clock::now();
    if (tokens_++ == 0) first_ = last_;
  }
  void OnEnd() {
    if (tokens_ == 0) return run_.Fail("a response had no text");
    run_.tokens += tokens_;
    run_.first_ms.push_back(MsBetween(sent_, first_));
    if (tokens_ > 1) {
      run_.next_ms.push_back(MsBetween(first_, last_) / static_cast<double>(tokens_ - 1));
    }
    Next();
    run_.Answered();
  }

  Run& run_;
  std::unique_ptr<tcp::socket> socket_;
  char piece_[16 << 10];
  std::string text_;
  uint64_t tokens_ = 0;
  Clock::time_point sent_, first_, last_;
};

template <class Client>
double Drive(Run& run) {
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < run.options.clients; ++i) clients.push_back(std::make_shared<Client>(run));
  const auto start = Clock::now();
  for (const auto& client : clients) client->Next();
  run.io.run();
  return MsBetween(start, Clock::now()) / 1e3;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures an HTTP server from its clients.", "pie-http-bench");
  app.add_option("mode", options.mode)->required()->check(CLI::IsMember({"get", "stream"}));
  app.add_option("--port", options.port);
  app.add_option("--path", options.path);
  app.add_option("--body", options.body);
  app.add_option("--clients", options.clients);
  app.add_option("--count", options.count, "of requests, mode get");
  app.add_option("--repeat", options.repeat, "requests of each client, mode stream");
  CLI11_PARSE(app, argc, argv);
  const bool gets = options.mode == "get";
  Run run{.options = options, .endpoint = {asio::ip::make_address("127.0.0.1"), options.port}};
  run.left = run.waiting = gets ? options.count : options.clients * options.repeat;
  try {
    const double seconds = gets ? Drive<Getter>(run) : Drive<Streamer>(run);
    if (!run.fault.empty()) throw std::runtime_error(run.fault);
    if (gets) {
      fmt::print("{{\"per_s\": {:.1f}, \"p50_ms\": {:.4f}, \"p99_ms\": {:.4f}}}\n",
                 options.count / seconds, At(run.times_ms, 0.5), At(run.times_ms, 0.99));
    } else {
      fmt::print("{{\"tps\": {:.2f}, \"tokens\": {}, \"ttft_ms\": {:.3f}, \"tpot_ms\": {:.4f}}}\n",
                 static_cast<double>(run.tokens) / seconds, run.tokens, At(run.first_ms, 0.5),
                 At(run.next_ms, 0.5));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "pie-http-bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
