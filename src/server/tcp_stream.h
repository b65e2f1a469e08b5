// TcpStream: a TCP stream whose reads can be limited. ReadAllowance: how much may be read.
//
// Beast reads some things by itself, without returning to the code that lets users take turns:
// empty fragments, control frames, and everything that a client sends after it was sent away. So
// for each part of a message, the stream may read a certain number of bytes, which is far more than
// the part takes. Bytes beyond that number are read slowly.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/rate_policy.hpp>
#include <cstddef>
#include <limits>

namespace pie::server {

// A RatePolicy of Beast. IO thread.
class ReadAllowance {
 public:
  static constexpr size_t kPerSecond = 4ull << 10;  // read beyond the allowance

  void Allow(size_t bytes) { left_ = bytes; }

  // The stream calls these.
  size_t available_read_bytes() const { return left_; }
  void transfer_read_bytes(size_t bytes) {
    if (left_ != kNoLimit) left_ -= bytes < left_ ? bytes : left_;
  }
  size_t available_write_bytes() const { return kNoLimit; }
  void transfer_write_bytes(size_t) {}
  // Called once a second while a read waits.
  void on_timer() {
    if (left_ < kPerSecond) left_ = kPerSecond;
  }

 private:
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();
  size_t left_ = kNoLimit;
};

using TcpStream =
    boost::beast::basic_stream<boost::asio::ip::tcp, boost::asio::any_io_executor, ReadAllowance>;

}  // namespace pie::server
