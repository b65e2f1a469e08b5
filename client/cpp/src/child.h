// Child: a program that runs beside this client and talks over its stdin and stdout. Both are one
// local socket, so a program that has ended shows as an error and never as a SIGPIPE. The
// destructor ends the program. Everything runs on one strand.
#pragma once

#include <sys/types.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "asio.h"

namespace pie_client {

class Child {
 public:
  // Throws std::system_error if the program cannot be started.
  Child(const asio::any_io_executor& executor, const std::vector<std::string>& command);
  ~Child() { Kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Returns the next line, which is valid until the next call. Throws at the end of the output and
  // on a line of more than `most` bytes.
  asio::awaitable<std::string_view> ReadLine(size_t most);
  asio::awaitable<void> Write(std::string_view bytes);
  // Ends the program's input. A well-behaved program ends then.
  void CloseInput();
  void Kill();

 private:
  asio::local::stream_protocol::socket socket_;
  pid_t pid_ = -1;
  std::string lines_;
  size_t taken_ = 0;  // bytes of `lines_` that the last call returned
};

}  // namespace pie_client
