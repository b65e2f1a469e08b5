#include <iostream>

#include "pie_client/async.h"
// The header above must come before those of Asio.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

namespace asio = boost::asio;

asio::awaitable<void> Hello(std::string uri) {
  pie_client::async::Client client(uri, {.username = "ada"});
  co_await client.Connect();
  const nlohmann::json input = {{"prompt", "Hello"}, {"temperature", 0}};
  auto process = co_await client.LaunchProcess("text-completion", input);
  while (auto text = co_await process.NextText()) std::cout << *text << std::flush;
}

int main(int argc, char** argv) {
  asio::io_context io;
  asio::co_spawn(io, Hello(argc > 1 ? argv[1] : "ws://127.0.0.1:8080"), [](std::exception_ptr e) {
    if (e) std::rethrow_exception(e);
  });
  io.run();
}
