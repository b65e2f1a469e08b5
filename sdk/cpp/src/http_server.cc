// Requests that an inferlet answers.
#include <cstdio>

#include "http_body.h"
#include "inferlet/main.h"
#include "inferlet/reactor.h"

namespace inferlet::http {

namespace detail {

// The engine's place for the response. It is told when nothing was put there.
class OutParam {
 public:
  explicit OutParam(host::ResponseOutparam out) : out_(std::move(out)) {}
  ~OutParam() {
    if (!out_) return;
    constexpr std::string_view kText = "the inferlet sent no response";
    host::ErrorCode error = {host::ErrorCode::InternalError{wit::string::from_view(kText)}};
    host::ResponseOutparam::Set(*std::move(out_), std::unexpected(std::move(error)));
  }
  OutParam(const OutParam&) = delete;
  OutParam& operator=(const OutParam&) = delete;

  bool IsFree() const { return out_.has_value(); }
  void Set(host::OutgoingResponse response) {
    host::ResponseOutparam out = *std::move(out_);
    out_.reset();
    host::ResponseOutparam::Set(std::move(out), std::move(response));
  }

 private:
  std::optional<host::ResponseOutparam> out_;
};

void Answer(Task<Result<void>> handler) {
  inferlet::detail::BeforeMain();
  {
    Task<Result<void>> running = std::move(handler);
    const Result<Result<void>> ended = BlockOn(std::move(running));
    if (!ended) {
      std::fprintf(stderr, "%s\n", ended.error().c_str());
    } else if (!*ended) {
      std::fprintf(stderr, "%s\n", ended->error().c_str());
    }
  }
  std::fflush(stdout);
}

}  // namespace detail

Request::Request(int32_t handle) {
  const host::IncomingRequest raw{wit::ResourceImportBase(handle)};
  const auto target = raw.PathWithQuery();
  const std::string whole = target ? target->to_string() : "/";
  const size_t question = whole.find('?');
  method_ = detail::NameOf(raw.Method());
  path_ = whole.substr(0, question);
  if (question != std::string::npos) query_ = whole.substr(question + 1);
  headers_ = detail::HeadersOf(raw.Headers());
  body_ = detail::BodyOf(raw);
}

std::optional<std::string> Request::Header(std::string_view name) const {
  return detail::Find(headers_, name);
}

Task<Result<std::string>> Request::Body(size_t limit) const {
  return detail::ReadAll(body_, limit, "");
}

Task<Result<std::optional<Bytes>>> Request::Chunk() const {
  return detail::Read(body_, "");
}

Task<Result<void>> Body::Write(std::string_view text) const {
  return detail::Write(outgoing_, detail::BytesOf(text));
}

Task<Result<void>> Body::Write(std::span<const uint8_t> bytes) const {
  return detail::Write(outgoing_, bytes);
}

Result<void> Body::Finish() const {
  return outgoing_->Finish();
}

Responder::Responder(int32_t handle)
    : out_(std::make_shared<detail::OutParam>(
          host::ResponseOutparam(wit::ResourceImportBase(handle)))) {}

Result<Body> Responder::Start() {
  if (!out_->IsFree()) return Error("the response was sent already");
  host::OutgoingResponse response(PIE_TRY_SYNC(detail::FieldsOf(headers_)));
  const bool is_status = status_ >= 100 && status_ < 1000;
  if (!is_status || !response.SetStatusCode(static_cast<uint16_t>(status_))) {
    return Error(std::to_string(status_) + " is no HTTP status");
  }
  auto body = response.Body();
  if (!body) return Error("the response has no body");
  auto stream = body->Write();
  if (!stream) return Error("the response has no body");
  out_->Set(std::move(response));
  return Body(std::make_shared<detail::Outgoing>(*std::move(body), *std::move(stream)));
}

namespace {

Task<Result<void>> SendWhole(Result<Body> started, std::string_view text) {
  Body body = PIE_TRY(std::move(started));
  PIE_TRY(co_await body.Write(text));
  co_return body.Finish();
}

}  // namespace

Task<Result<void>> Responder::Send(std::string_view body) {
  Header("content-length", std::to_string(body.size()));
  return SendWhole(Start(), body);
}

}  // namespace inferlet::http
