// Includes the parts of Asio that the client uses.
#pragma once

// clang-format off
#include <utility>  // missing in awaitable.hpp
#include <boost/asio/awaitable.hpp>
// clang-format on
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace pie_client {

namespace asio = boost::asio;

}  // namespace pie_client
