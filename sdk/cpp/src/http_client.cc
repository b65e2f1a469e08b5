// Requests that an inferlet makes.
#include "http_body.h"
#include "inferlet/reactor.h"

namespace inferlet::http {

namespace {

struct Target {
  bool secure;
  std::string_view authority;
  std::string path;
};

Result<Target> TargetOf(std::string_view url) {
  Target target = {};
  if (url.starts_with("https://")) {
    target.secure = true;
  } else if (!url.starts_with("http://")) {
    return Error("a URL begins with http:// or https://");
  }
  url.remove_prefix(target.secure ? 8 : 7);
  url = url.substr(0, url.find('#'));
  const size_t end = std::min(url.find_first_of("/?"), url.size());
  target.authority = url.substr(0, end);
  target.path = url.substr(end);
  if (!target.path.starts_with('/')) target.path.insert(0, "/");
  return target;
}

Result<host::OutgoingRequest> Make(std::string_view method, const Target& target,
                                   const Headers& headers) {
  host::OutgoingRequest request(PIE_TRY_SYNC(detail::FieldsOf(headers)));
  host::Scheme scheme = {host::Scheme::Http{}};
  if (target.secure) scheme = {host::Scheme::Https{}};
  if (!request.SetMethod(detail::MethodOf(method)) || !request.SetScheme(std::move(scheme)) ||
      !request.SetAuthority(target.authority) || !request.SetPathWithQuery(target.path)) {
    return Error("the URL or the method is malformed");
  }
  return request;
}

}  // namespace

Task<Result<Response>> Call::SendNow(Call call) {
  const std::string where = call.url_ + ": ";
  const Result<Target> target = TargetOf(call.url_);
  if (!target) co_return Error(where + target.error());
  if (!call.body_.empty() && !detail::Find(call.headers_, "content-length")) {
    call.headers_.emplace_back("content-length", std::to_string(call.body_.size()));
  }
  Result<host::OutgoingRequest> request = Make(call.method_, *target, call.headers_);
  if (!request) co_return Error(where + request.error());
  auto body = request->Body();
  if (!body) co_return Error(where + "the request has no body");
  auto stream = body->Write();
  if (!stream) co_return Error(where + "the request has no body");
  auto outgoing = std::make_shared<detail::Outgoing>(*std::move(body), *std::move(stream));

  std::optional<host::RequestOptions> options;
  if (call.timeout_) {
    options.emplace();
    const auto nanoseconds = static_cast<uint64_t>(std::max<int64_t>(0, call.timeout_->count()));
    (void)options->SetConnectTimeout(nanoseconds);
    (void)options->SetFirstByteTimeout(nanoseconds);
  }
  auto pending = wasi::http::outgoing_handler::Handle(*std::move(request), std::move(options));
  if (!pending) co_return Error(where + detail::Describe(pending.error()));
  // A server may answer before it has read the whole body. The rest is then not needed.
  const Result<void> written = co_await detail::Write(outgoing, detail::BytesOf(call.body_));
  if (written) {
    const Result<void> finished = outgoing->Finish();
    if (!finished) co_return Error(where + finished.error());
  }
  for (;;) {
    const auto answer = pending->Get();
    if (!answer) {
      co_await Ready(pending->Subscribe());
      continue;
    }
    if (!*answer) co_return Error(where + "the response was taken already");
    if (!**answer) co_return Error(where + detail::Describe((*answer)->error()));
    const host::IncomingResponse& incoming = ***answer;
    Response response;
    response.url_ = call.url_;
    response.status_ = incoming.Status();
    response.headers_ = detail::HeadersOf(incoming.Headers());
    response.body_ = detail::BodyOf(incoming);
    co_return response;
  }
}

std::optional<std::string> Response::Header(std::string_view name) const {
  return detail::Find(headers_, name);
}

Task<Result<std::optional<Bytes>>> Response::Chunk() const {
  return detail::Read(body_, url_ + ": ");
}

Task<Result<std::string>> Response::Text() const {
  return detail::ReadAll(body_, kMaxBodyBytes, url_ + ": ");
}

namespace {

Task<Result<Bytes>> AsBytes(Task<Result<std::string>> text) {
  const std::string all = PIE_TRY(co_await text);
  co_return Bytes(all.begin(), all.end());
}

Task<Result<Json>> AsJson(Task<Result<std::string>> text, std::string url) {
  const std::string all = PIE_TRY(co_await text);
  Result<Json> json = Json::Parse(all);
  if (!json) co_return Error(url + ": the response is not JSON: " + json.error());
  co_return json;
}

}  // namespace

Task<Result<http::Bytes>> Response::Bytes() const {
  return AsBytes(Text());
}

Task<Result<inferlet::Json>> Response::Json() const {
  return AsJson(Text(), url_);
}

}  // namespace inferlet::http
