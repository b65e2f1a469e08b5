#include "child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <system_error>

namespace pie_client {
namespace {

void Check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

// Runs the command with `end` as its stdin and stdout. It inherits stderr and nothing else.
pid_t Spawn(const std::vector<std::string>& command, int end) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  Check(posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
  posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, end, STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  Check(error, arguments[0]);
  return pid;
}

}  // namespace

Child::Child(const asio::any_io_executor& executor, const std::vector<std::string>& command)
    : socket_(executor) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) Check(errno, "socketpair");
  socket_.assign(asio::local::stream_protocol(), ends[0]);
  try {
    pid_ = Spawn(command, ends[1]);
  } catch (...) {
    close(ends[1]);
    throw;
  }
  close(ends[1]);
}

asio::awaitable<std::string_view> Child::ReadLine(size_t most) {
  lines_.erase(0, taken_);
  taken_ = 0;
  taken_ = co_await asio::async_read_until(socket_, asio::dynamic_buffer(lines_, most), '\n',
                                           asio::use_awaitable);
  co_return std::string_view(lines_).substr(0, taken_);
}

asio::awaitable<void> Child::Write(std::string_view bytes) {
  co_await asio::async_write(socket_, asio::buffer(bytes), asio::use_awaitable);
}

void Child::CloseInput() {
  boost::system::error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
}

void Child::Kill() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(std::exchange(pid_, -1), nullptr, 0);
}

}  // namespace pie_client
