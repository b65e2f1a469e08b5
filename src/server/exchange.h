// Exchange: one HTTP request that an inferlet answers in an instance of its own.
//
// The IO thread passes the request's body in, piece by piece, and takes the response out. The
// instance runs on guest threads. It waits while the client reads slowly, and is cancelled when the
// client leaves.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "host/process.h"
#include "server/service.h"
#include "server/stderr_log.h"
#include "server/web_access.h"

namespace pie::server {

// The inferlet that answers a request, its user, and the request's head.
struct Call {
  std::string program;
  std::string username;
  std::string input;  // its environment variable PIE_INPUT
  std::string method, target, authority;
  bool secure = false;
  std::string headers = {};  // lines of the form `name:value`
  HeadGuard guard = {};      // of the response
};

class Exchange final : public host::Listener, public std::enable_shared_from_this<Exchange> {
 public:
  // The socket as the exchange sees it. IO thread.
  class Client {
   public:
    virtual ~Client() = default;
    virtual void OnBodyWanted() = 0;     // the instance can take the next piece of the body
    virtual void OnResponseReady() = 0;  // there is something to Take
  };

  // `client` must live until Leave or Finish.
  Exchange(Service& service, Client* client, Call call);
  ~Exchange() override;

  // The following are for the IO thread. Begin loads the program if needed, and starts it.
  void Begin();
  void PassBody(std::string_view piece, bool last);
  // The part of the response that has arrived since the last call. The head comes once, before the
  // first bytes.
  struct Response {
    std::optional<uint16_t> status;
    std::string headers;
    std::string body;
    bool ended = false;
    bool complete = false;  // if the response has ended: it is complete
  };
  Response Take();
  // The client is gone: cancels the instance, and calls the client no more.
  void Leave();
  // The response is sent: calls the client no more. The instance may go on with other work.
  void Finish() { client_ = nullptr; }

  // host::Listener, called on guest threads.
  void OnMessage(std::string_view) override {}
  void OnFile(std::string_view) override {}
  void OnOutput(bool is_stderr, std::string_view bytes) override;
  void OnExit(const wasm::Exit& exit) override;
  void OnBodyTaken() override;
  void OnResponse(uint16_t status, std::string_view headers) override;
  void OnResponseBody(std::string_view bytes) override;
  void OnResponseEnd(bool complete) override;
  bool Full() override;
  wasm::Signal* room() override { return &room_; }

 private:
  void Launch(const Result<std::string>& program);
  void Respond(uint16_t status, std::string_view text);
  void Wake();
  nlohmann::json About() const;

  Service& service_;
  const std::shared_ptr<std::atomic<size_t>> count_;  // of exchanges
  Client* client_;                                    // IO thread; null once it has left
  const Call call_;
  host::Charge place_;  // among the requests of all users
  StderrLog stderr_log_;

  std::mutex mutex_;
  std::shared_ptr<host::Process> process_;
  std::string process_id_;
  Response response_;
  bool began_ = false;  // the head of the response has come
  bool over_ = false;   // its end has come
  bool exited_ = false;
  bool woken_ = false;
  bool waits_ = false;  // the instance waits for room
  wasm::Signal room_;
};

// The body of an error, in the form that clients of the OpenAI API and of the Anthropic API know.
// An empty code is null.
std::string ErrorJson(std::string_view type, std::string_view message, std::string_view code = {});

}  // namespace pie::server
