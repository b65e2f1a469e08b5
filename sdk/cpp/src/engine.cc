// The engine around the inferlet: runtime, models, adapters, session, messaging, MCP.
#include "inferlet/adapter.h"
#include "inferlet/mcp.h"
#include "inferlet/messaging.h"
#include "inferlet/model.h"
#include "inferlet/reactor.h"
#include "inferlet/runtime.h"
#include "inferlet/session.h"

namespace inferlet {

using detail::Lift;
using detail::LiftText;
using detail::List;
using detail::Text;
using detail::Texts;

namespace runtime {

namespace host = pie::core::runtime;

std::vector<std::string> Models() { return Texts(host::Models()); }
std::string Version() { return Text(host::Version()); }
std::string InstanceId() { return Text(host::InstanceId()); }
std::string Username() { return Text(host::Username()); }

Result<Child> Launch(std::string_view program, std::string_view input) {
  return Lift(host::Launch(program, input), [](host::Child child) { return Child(std::move(child)); });
}

Child::Child(host::Child raw) : raw_(std::make_shared<host::Child>(std::move(raw))) {}
std::string Child::Pid() const { return Text(raw_->Pid()); }
void Child::Cancel() const { raw_->Cancel(); }

std::optional<Result<std::string>> Child::Get() const {
  auto answer = raw_->Get();
  if (!answer) return std::nullopt;
  return LiftText(*std::move(answer));
}

namespace {

Task<Result<std::string>> EndOf(Child child, std::shared_ptr<host::Child> raw) {
  std::optional<Result<std::string>> answer = child.Get();
  if (!answer) {
    co_await Ready(raw->Pollable());
    answer = child.Get();
  }
  if (!answer) co_return Error("the child ended without an answer");
  co_return *std::move(answer);
}

}  // namespace

Task<Result<std::string>> Child::Wait() const { return EndOf(*this, raw_); }

}  // namespace runtime

namespace {

Vocabulary ToVocabulary(
    const std::tuple<wit::vector<uint32_t>, wit::vector<wit::vector<uint8_t>>>& raw) {
  const auto& [ids, bytes] = raw;
  Vocabulary vocabulary{.ids = List(ids), .bytes = {}};
  vocabulary.bytes.reserve(bytes.size());
  for (const wit::vector<uint8_t>& token : bytes.get_view()) {
    vocabulary.bytes.emplace_back(token.data(), token.data() + token.size());
  }
  return vocabulary;
}

}  // namespace

Tokenizer::Tokenizer(raw::Tokenizer raw) : raw_(std::make_shared<raw::Tokenizer>(std::move(raw))) {}
std::vector<uint32_t> Tokenizer::Encode(std::string_view text) const { return List(raw_->Encode(text)); }
Result<std::string> Tokenizer::Decode(std::span<const uint32_t> tokens) const {
  return LiftText(raw_->Decode(tokens));
}
Vocabulary Tokenizer::Vocabs() const { return ToVocabulary(raw_->Vocabs()); }
Vocabulary Tokenizer::SpecialTokens() const { return ToVocabulary(raw_->SpecialTokens()); }
std::string Tokenizer::SplitRegex() const { return Text(raw_->SplitRegex()); }

Result<Model> Model::Load(std::string_view name) {
  return Lift(raw::Model::Load(name), [](raw::Model model) {
    return Model(std::make_shared<State>(std::move(model)));
  });
}

Result<Adapter> Adapter::Create(const Model& model, std::string_view name) {
  return Lift(raw::Adapter::Create(model.Inner(), name),
              [](raw::Adapter adapter) { return Adapter(std::move(adapter)); });
}

std::optional<Adapter> Adapter::Open(const Model& model, std::string_view name) {
  std::optional<raw::Adapter> adapter = raw::Adapter::Open(model.Inner(), name);
  if (!adapter) return std::nullopt;
  return Adapter(*std::move(adapter));
}

Adapter Adapter::Fork(std::string_view new_name) const { return Adapter(raw_->Fork(new_name)); }
Result<void> Adapter::Save(std::string_view path) const { return Lift(raw_->Save(path)); }
Result<void> Adapter::Load(std::string_view path) const { return Lift(raw_->Load(path)); }
void Adapter::Destroy() const { raw_->Destroy(); }

namespace zo {

Result<void> Initialize(const Adapter& adapter, uint32_t rank, float alpha, uint32_t population_size,
                        float mu_fraction, float initial_sigma) {
  return Lift(pie::zo::zo::Initialize(adapter.Inner(), rank, alpha, population_size, mu_fraction,
                                      initial_sigma));
}

Result<void> Update(const Adapter& adapter, std::span<const float> scores,
                    std::span<const int64_t> seeds, float max_sigma) {
  return Lift(pie::zo::zo::Update(adapter.Inner(), scores, seeds, max_sigma));
}

}  // namespace zo

namespace {

// The futures are made by the callers, so that the host is asked at once and not when awaited.
Task<std::optional<std::string>> TextOf(pie::core::types::FutureString future) {
  const std::optional<wit::string> text = co_await detail::Answer(std::move(future));
  if (!text) co_return std::nullopt;
  co_return Text(*text);
}

Task<std::optional<std::vector<uint8_t>>> BytesOf(pie::core::types::FutureBlob future) {
  const std::optional<wit::vector<uint8_t>> bytes = co_await detail::Answer(std::move(future));
  if (!bytes) co_return std::nullopt;
  co_return List(*bytes);
}

}  // namespace

namespace session {

namespace host = pie::core::session;

void Send(std::string_view message) { host::Send(message); }
void Send(const Json& message) {
  host::Send(message.IsString() ? *message.As<std::string>() : message.Dump());
}
void SendFile(std::span<const uint8_t> data) { host::SendFile(data); }
Task<std::optional<std::string>> Receive() { return TextOf(host::Receive()); }
Task<std::optional<std::vector<uint8_t>>> ReceiveFile() { return BytesOf(host::ReceiveFile()); }

}  // namespace session

namespace messaging {

namespace host = pie::core::messaging;

void Push(std::string_view topic, std::string_view message) { host::Push(topic, message); }
Task<std::optional<std::string>> Pull(std::string_view topic) { return TextOf(host::Pull(topic)); }
void Broadcast(std::string_view topic, std::string_view message) { host::Broadcast(topic, message); }
Subscription Subscribe(std::string_view topic) { return Subscription(host::Subscribe(topic)); }

Subscription::Subscription(host::Subscription raw)
    : raw_(std::make_shared<host::Subscription>(std::move(raw))) {}

std::optional<std::string> Subscription::Get() const {
  const std::optional<wit::string> message = raw_->Get();
  if (!message) return std::nullopt;
  return Text(*message);
}

namespace {

Task<std::optional<std::string>> NextOf(std::shared_ptr<host::Subscription> subscription) {
  std::optional<wit::string> message = subscription->Get();
  if (!message) {
    co_await Ready(subscription->Pollable());
    message = subscription->Get();
  }
  if (!message) co_return std::nullopt;
  co_return Text(*message);
}

}  // namespace

Task<std::optional<std::string>> Subscription::GetAsync() const { return NextOf(raw_); }
void Subscription::Unsubscribe() const { raw_->Unsubscribe(); }

}  // namespace messaging

namespace mcp {

namespace host = pie::mcp::client;

namespace {

std::unexpected<std::string> ToError(const pie::mcp::types::Error& error) {
  return Error(Text(error.message) + " (code " + std::to_string(error.code) + ")");
}

Result<std::string> ToResult(const std::expected<wit::string, pie::mcp::types::Error>& result) {
  if (!result) return ToError(result.error());
  return Text(*result);
}

}  // namespace

std::vector<std::string> AvailableServers() { return Texts(host::AvailableServers()); }

Result<Session> Connect(std::string_view name) {
  auto session = host::Connect(name);
  if (!session) return ToError(session.error());
  return Session(*std::move(session));
}

Result<std::string> Session::ListTools() const { return ToResult(raw_.ListTools()); }
Result<std::string> Session::CallTool(std::string_view name, std::string_view args_json) const {
  return ToResult(raw_.CallTool(name, args_json));
}
Result<std::string> Session::ListResources() const { return ToResult(raw_.ListResources()); }
Result<std::string> Session::ReadResource(std::string_view uri) const {
  return ToResult(raw_.ReadResource(uri));
}
Result<std::string> Session::ListPrompts() const { return ToResult(raw_.ListPrompts()); }
Result<std::string> Session::GetPrompt(std::string_view name, std::string_view args_json) const {
  return ToResult(raw_.GetPrompt(name, args_json));
}

}  // namespace mcp
}  // namespace inferlet
