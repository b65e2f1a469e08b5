// Does what the client requests over the session, as the program in Rust beside it does.
#include <inferlet/inferlet.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace inferlet;

namespace {

Json Speak() {
  session::Send("text");
  session::Send(Json::Object({{"event", "tick"}, {"n", 3}}));
  std::puts("printed");
  std::fflush(stdout);
  std::fputs("complained\n", stderr);
  const uint8_t bytes[] = {0, 1, 255};
  session::SendFile(bytes);
  return Json::Object({{"spoken", 5}});
}

Task<Result<Json>> Echo() {
  while (true) {
    const auto message = co_await session::Receive();
    if (!message) co_return "the client left";
    if (*message == "stop") co_return "stopped";
    session::Send(*message);
  }
}

}  // namespace

Task<Result<Json>> Main(Json input) {
  const std::string what = PIE_TRY(input.Get<std::string>("do"));
  if (what == "speak") co_return Speak();
  if (what == "echo") co_return co_await Echo();
  if (what == "both") {
    auto [a, b] = co_await WhenAll(session::Receive(), session::Receive());
    if (!a || !b) co_return "the client left";
    co_return Json::Array({std::min(*a, *b), std::max(*a, *b)});
  }
  if (what == "echo-file") {
    const auto data = co_await session::ReceiveFile();
    if (!data) co_return "the client left";
    session::SendFile(*data);
    co_return static_cast<int>(data->size());
  }
  if (what == "count") {
    const int n = PIE_TRY(input.Get<int>("n"));
    for (int i = 0; i < n; ++i) session::Send(std::to_string(i));
    co_return n;
  }
  if (what == "print") {
    std::printf("one\n");
    std::fputs("several\nlines 2\n", stdout);
    std::printf("no newline");
    const std::string end = PIE_TRY(input.Get<std::string>("end"));
    if (end == "trap") std::abort();
    if (end == "exit") std::exit(3);
    if (end != "fail") co_return "printed";
  }
  co_return Error("it failed as asked");
}

PIE_MAIN(Main)
