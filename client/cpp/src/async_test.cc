// Tests that need no server: bells, clients without a connection, and abandoned coroutines. All
// other tests are in tests/clients.
#include <gtest/gtest.h>

#include "asio.h"
#include "bell.h"
#include "pie_client/async.h"
#include "pie_client/client.h"
// The header above must come before those of Asio.
#include <boost/asio/ip/tcp.hpp>

namespace pie_client {
namespace {

using std::chrono::milliseconds;

void RunAll(asio::awaitable<void> steps) {
  asio::io_context io;
  asio::co_spawn(io, std::move(steps), [](std::exception_ptr fault) {
    if (fault) std::rethrow_exception(fault);
  });
  io.run();
}

struct Door {
  Bell bell;
  bool open = false;
  int through = 0;
};

asio::awaitable<void> PassThrough(Door& door, Limit limit) {
  if (co_await door.bell.Wait(limit, [&] { return door.open; })) ++door.through;
}

TEST(Bell, RingsForAll) {
  Door door;
  asio::io_context io;
  for (int i = 0; i < 100; ++i) asio::co_spawn(io, PassThrough(door, {}), asio::detached);
  io.poll();
  door.bell.Ring();  // nothing has changed, so the waiters continue to wait
  io.poll();
  EXPECT_EQ(door.through, 0);
  door.open = true;
  door.bell.Ring();
  io.run();
  EXPECT_EQ(door.through, 100);
}

TEST(Bell, TimeIsLimited) {
  Door door;
  RunAll(PassThrough(door, milliseconds(1)));
  EXPECT_EQ(door.through, 0);
  door.open = true;
  RunAll(PassThrough(door, milliseconds(0)));
  EXPECT_EQ(door.through, 1);
}

TEST(Bell, TheLongestTimeIsNoOverflow) {
  Door door;
  asio::io_context io;
  asio::co_spawn(io, PassThrough(door, milliseconds::max()), asio::detached);
  io.poll();
  door.open = true;
  door.bell.Ring();
  io.run();
  EXPECT_EQ(door.through, 1);
}

TEST(Bell, WaitersThatAreAbandonedLeaveNothing) {
  Door door;
  {
    asio::io_context io;
    asio::co_spawn(io, PassThrough(door, {}), asio::detached);
    io.poll();
  }
  door.bell.Ring();
  EXPECT_EQ(door.through, 0);
}

asio::awaitable<void> PingBeforeConnecting() {
  async::Client client("ws://127.0.0.1:1");
  co_await client.Ping();
}

asio::awaitable<void> ConnectToNobody(std::string uri) {
  async::Client client(std::move(uri), {.username = "ada"});
  co_await client.Connect();
}

TEST(AsyncClient, WithoutAConnection) {
  EXPECT_THROW(RunAll(PingBeforeConnecting()), ConnectionLost);
  EXPECT_THROW(RunAll(ConnectToNobody("ws://127.0.0.1:1")), ConnectionLost);
  EXPECT_THROW(RunAll(ConnectToNobody("http://127.0.0.1:1")), ConnectionLost);
  EXPECT_THROW(Client::Connect("ws://127.0.0.1:1"), ConnectionLost);
}

// Destroying an io_context destroys the coroutines that wait on it.
TEST(AsyncClient, AbandonedWhileItConnects) {
  asio::io_context io;
  const asio::ip::tcp::endpoint any(asio::ip::address_v4::loopback(), 0);
  asio::ip::tcp::acceptor silent(io, any);
  const std::string uri = "ws://127.0.0.1:" + std::to_string(silent.local_endpoint().port());
  bool ended = false;
  asio::co_spawn(io, ConnectToNobody(uri), [&](std::exception_ptr) { ended = true; });
  io.run_for(milliseconds(50));
  EXPECT_FALSE(ended);
}

}  // namespace
}  // namespace pie_client
