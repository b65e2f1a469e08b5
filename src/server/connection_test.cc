// Connections without sockets: the frames of a client go in, the frames of the server come out.
#include "server/connection.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/dummy/dummy_backend.h"
#include "host/hash.h"
#include "server/http.h"
#include "server/server.h"
#include "speech/dummy_model.h"

namespace pie::server {
namespace {

using nlohmann::json;

struct FakeWire final : Wire {
  std::string closed;
  void Ready() override {}
  void Close(std::string_view reason) override { closed = reason; }
};

class ConnectionTest : public testing::Test {
 protected:
  explicit ConnectionTest(bool auth_on = false, const Limits& the_limits = {})
      : limits(the_limits) {
    std::string pattern = testing::TempDir() + "/connection-XXXXXX";
    dir = mkdtemp(pattern.data());
    host::EngineOptions options;
    auto backend = MakeDummyBackend({});
    options.models.push_back({MakeDummyModel("default"),
                              std::make_unique<Scheduler>(std::move(backend), SchedulerOptions{})});
    options.runtime.max_instances = 4;
    engine = *host::Engine::Start(std::move(options));
    registry = *Registry::Open(dir + "/programs");
    auth = std::make_unique<Auth>(auth_on, dir + "/users.toml");
    service = std::make_unique<Service>(
        *engine, *registry, *auth, log, limits, 0,
        [this](std::function<void()> f) {
          std::lock_guard lock(mutex);
          posted.push_back(std::move(f));
        },
        Routes::Table(), MakePage());
    connection = std::make_shared<Connection>(*service, &wire, "test");
  }
  ~ConnectionTest() override {
    connection->OnClosed();
    connection.reset();
    posted.clear();
    service.reset();
    std::filesystem::remove_all(dir);
  }

  Page MakePage() const {
    const std::string web = dir + "/web";
    std::filesystem::create_directory(web);
    std::ofstream(web + "/index.html") << "<!doctype html>";
    return *Page::Read(web);
  }

  void Send(const json& message) {
    const auto bytes = json::to_msgpack(message);
    connection->OnFrame({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  // Returns all waiting frames, after `jobs` jobs of the work queue have run.
  std::vector<json> Answers(size_t jobs = 0) {
    for (; jobs > 0; --jobs) {
      std::function<void()> job;
      while (!job) {
        std::lock_guard lock(mutex);
        if (posted.empty()) continue;
        job = std::move(posted.front());
        posted.pop_front();
      }
      job();
    }
    std::vector<json> answers;
    while (auto frame = connection->Next()) {
      connection->Sent();
      answers.push_back(json::from_msgpack(*frame));
    }
    return answers;
  }
  json Answer(const json& message, size_t jobs = 0) {
    Send(message);
    auto answers = Answers(jobs);
    EXPECT_EQ(answers.size(), 1u) << message;
    return answers.empty() ? json() : answers[0];
  }
  void Identify(const char* user = "ada") {
    EXPECT_TRUE(Answer({{"type", "auth_identify"}, {"corr_id", 1}, {"username", user}})["ok"]);
  }

  std::string dir;
  const Limits limits;
  Log log{{.least = Log::Level::kError}};
  std::mutex mutex;
  std::deque<std::function<void()>> posted;
  std::unique_ptr<host::Engine> engine;
  std::unique_ptr<Registry> registry;
  std::unique_ptr<Auth> auth;
  std::unique_ptr<Service> service;
  FakeWire wire;
  std::shared_ptr<Connection> connection;
};

class AuthTest : public ConnectionTest {
 protected:
  AuthTest() : ConnectionTest(true) {}
};

// A message of this type with every field that any message may have.
json Filled(std::string_view type) {
  const json bytes = json::binary({1});
  return {
      {"type", type},        {"corr_id", 1},      {"username", "ada"},  {"signature", "AAAA"},
      {"token", "x"},        {"name", "a"},       {"version", "0.1.0"}, {"subject", "x"},
      {"record", ""},        {"manifest", ""},    {"ok", true},         {"force_overwrite", true},
      {"program_hash", "x"}, {"file_hash", "x"},  {"chunk_index", 0},   {"total_chunks", 1},
      {"chunk_data", bytes}, {"inferlet", "a"},   {"input", "{}"},      {"capture_outputs", true},
      {"port", 1},           {"process_id", "p"}, {"message", "m"},     {"transport", "stdio"},
      {"result", "{}"}};
}

// The messages and routes that need no authentication. A new one must be added here.
const std::set<std::string_view> kBeforeAuth = {"auth_identify", "auth_prove", "auth_by_token"};
const std::set<std::string_view> kOpen = {"/", "/page/", "/healthz"};

TEST_F(AuthTest, EveryMessageNeedsAuthUnlessListed) {
  for (const MessageType& type : kMessageTypes) {
    wire.closed.clear();
    auto stranger = std::make_shared<Connection>(*service, &wire, "test");
    const auto bytes = json::to_msgpack(Filled(type.tag));
    stranger->OnFrame({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (kBeforeAuth.contains(type.tag)) {
      EXPECT_TRUE(wire.closed.empty()) << type.tag;
      EXPECT_TRUE(stranger->Next()) << type.tag;
    } else {
      EXPECT_NE(wire.closed.find("before authentication"), std::string::npos) << type.tag;
      EXPECT_FALSE(stranger->Next()) << type.tag << " was answered";
    }
    EXPECT_FALSE(stranger->known()) << type.tag;
    stranger->OnClosed();
  }
}

TEST_F(AuthTest, EveryRouteNeedsALoginUnlessListed) {
  for (const HttpRoute& route : kHttpRoutes) {
    const std::string path = std::string(route.path) + (route.path.ends_with('/') ? "x" : "");
    const std::string_view asked = route.path == "/" ? "/" : std::string_view(path);
    for (const std::string_view key : {"", "Bearer wrong"}) {
      const Asked stranger{.method = "GET", .target = asked, .authorization = key};
      const auto call = FindCall(*service, nullptr, stranger);
      const HttpAnswer answer = std::holds_alternative<HttpAnswer>(call)
                                    ? std::get<HttpAnswer>(call)
                                    : AnswerHttp(*service, stranger);
      EXPECT_EQ(answer.status != 401, kOpen.contains(route.path)) << asked;
    }
  }
  for (const char* path : {"/other", "/healthz/", "/healthz/../metrics", "/pagex", "//", "*", ""}) {
    EXPECT_EQ(AnswerHttp(*service, {.method = "GET", .target = path}).status, 401u) << path;
  }
  EXPECT_EQ(AnswerHttp(
                *service,
                {.method = "GET", .target = "/metrics", .authorization = "Bearer " + auth->token()})
                .status,
            200u);
  EXPECT_EQ(AnswerHttp(*service, {.method = "POST", .target = "/healthz"}).status, 405u);
  EXPECT_EQ(RefusalOf(*service, nullptr, {.origin = "https://a.example", .host = "x"}), "")
      << "a login protects more than the names do";
}

TEST_F(AuthTest, RoutesOfInferletsNeedAKey) {
  const std::string known = "Bearer " + auth->token();
  for (const std::string_view key : {"", "Bearer ", "Bearer wrong", "Basic x"}) {
    const auto refused =
        FindCall(*service, nullptr, {.method = "GET", .target = "/apps/x/y", .authorization = key});
    ASSERT_TRUE(std::holds_alternative<HttpAnswer>(refused)) << key;
    EXPECT_EQ(std::get<HttpAnswer>(refused).status, 401u);
    // Clients of the OpenAI API read `error`, those of the Anthropic API read `type` too.
    const json body = json::parse(std::get<HttpAnswer>(refused).body);
    EXPECT_EQ(body["type"], "error");
    EXPECT_EQ(body["error"]["type"], "invalid_request_error");
    EXPECT_EQ(body["error"]["code"], "invalid_api_key");
  }
  const auto refused =
      FindCall(*service, nullptr, {.method = "GET", .target = "/apps/x/y", .api_key = "wrong"});
  ASSERT_TRUE(std::holds_alternative<HttpAnswer>(refused));
  const json body = json::parse(std::get<HttpAnswer>(refused).body);
  EXPECT_EQ(body["error"]["type"], "authentication_error");
  const std::string lower = "bearer " + auth->token();
  EXPECT_TRUE(std::holds_alternative<Call>(FindCall(
      *service, nullptr, {.method = "GET", .target = "/apps/x/y", .authorization = lower})));
  const auto found = FindCall(*service, nullptr,
                              {.method = "GET", .target = "/apps/x/y?z", .authorization = known});
  ASSERT_TRUE(std::holds_alternative<Call>(found));
  EXPECT_EQ(std::get<Call>(found).program, "x");
  EXPECT_EQ(std::get<Call>(found).target, "/y?z");
  EXPECT_EQ(std::get<Call>(found).username, Auth::kInternalUser);
  // A daemon's port asks for no key: its user opened it.
  const Door door{.program = "x", .username = "ada", .input = "{}"};
  const auto open = FindCall(*service, &door, {.method = "GET", .target = "/y"});
  ASSERT_TRUE(std::holds_alternative<Call>(open));
  EXPECT_EQ(std::get<Call>(open).username, "ada");
}

TEST_F(AuthTest, AChallengeIsValidForOneAttempt) {
  const json first = Answer({{"type", "auth_identify"}, {"corr_id", 1}, {"username", "ada"}});
  EXPECT_TRUE(first["ok"]);
  EXPECT_TRUE(Base64Decode(first["result"].get<std::string>()));
  const json proof = {{"type", "auth_prove"}, {"corr_id", 2}, {"signature", "AAAA"}};
  Send(proof);
  EXPECT_FALSE(connection->Reads()) << "while it is checked";
  EXPECT_FALSE(Answers(1).at(0)["ok"]);
  EXPECT_TRUE(connection->Reads());
  const json again = Answer(proof);
  EXPECT_NE(again["result"].get<std::string>().find("no challenge"), std::string::npos);
  const json second = Answer({{"type", "auth_identify"}, {"corr_id", 3}, {"username", "ada"}});
  EXPECT_NE(first["result"], second["result"]);
}

TEST_F(AuthTest, AcceptsTheInternalToken) {
  EXPECT_FALSE(Answer({{"type", "auth_by_token"}, {"corr_id", 1}, {"token", ""}})["ok"]);
  EXPECT_FALSE(connection->known());
  EXPECT_TRUE(Answer({{"type", "auth_by_token"}, {"corr_id", 2}, {"token", auth->token()}})["ok"]);
  EXPECT_TRUE(connection->known());
  EXPECT_FALSE(Answer({{"type", "auth_identify"}, {"corr_id", 3}, {"username", "eve"}})["ok"])
      << "a client cannot change its user";
}

TEST_F(ConnectionTest, RefusesBadUserNames) {
  for (const std::string name : {"", "a\nb", "internal", "\xff"}) {
    EXPECT_FALSE(Answer({{"type", "auth_identify"}, {"corr_id", 1}, {"username", name}})["ok"]);
  }
  EXPECT_FALSE(Answer(
      {{"type", "auth_identify"}, {"corr_id", 1}, {"username", std::string(129, 'a')}})["ok"]);
  Identify();
}

TEST_F(ConnectionTest, BadFramesAreAnsweredOrCloseTheConnection) {
  Identify();
  Send({{"type", "ping"}, {"corr_id", 7}, {"x", {{"deep", 1}}}});
  EXPECT_TRUE(Answers().empty());
  EXPECT_FALSE(wire.closed.empty()) << "the frame has no corr_id to answer to";
  wire.closed.clear();
  const json missing = Answer({{"type", "launch_process"}, {"corr_id", 7}});
  EXPECT_EQ(missing["corr_id"], 7);
  EXPECT_FALSE(missing["ok"]);
  EXPECT_TRUE(wire.closed.empty());
  EXPECT_EQ(service->bad_frames.load(), 2u);
}

TEST_F(ConnectionTest, AnswersPing) {
  Identify();
  EXPECT_EQ(Answer({{"type", "ping"}, {"corr_id", 9}})["result"], "Pong");
}

TEST_F(ConnectionTest, UnknownProcessesAreErrors) {
  Identify();
  for (const char* type : {"attach_process", "terminate_process", "restart_daemon"}) {
    const json answer = Answer({{"type", type}, {"corr_id", 1}, {"process_id", "nobody\xff"}});
    EXPECT_FALSE(answer["ok"]);
  }
  const json told = Answer({{"type", "signal_process"}, {"process_id", "p"}, {"message", "m"}});
  EXPECT_EQ(told["event"], "stderr");
  EXPECT_EQ(Answer({{"type", "list_processes"}, {"corr_id", 1}}, 1)["result"], "[]");
}

TEST_F(ConnectionTest, RefusesLongMalformedSignals) {
  Identify();
  const auto signal = [](const std::string& text) {
    return json{{"type", "signal_process"}, {"corr_id", 9}, {"process_id", "p"}, {"message", text}};
  };
  const auto says = [](const json& answer, const char* words) {
    return answer["result"].get<std::string>().find(words) != std::string::npos;
  };
  const std::string long_text(200'000, 'a');
  EXPECT_TRUE(says(Answer(signal(long_text + "\xFF")), "not UTF-8 at byte 200000 of 200001"));
  EXPECT_TRUE(says(Answer(signal(long_text)), "no process"));
  EXPECT_TRUE(says(Answer(signal("a\xFF")), "no process"));  // a short text is repaired
}

TEST_F(ConnectionTest, RefusesInvalidPrograms) {
  Identify();
  json add = Filled("add_program");
  add["program_hash"] = host::Blake3Hex("\x01");
  add["manifest"] = "[package]\nname = \"a\"\nversion = \"0.1.0\"\n";
  const json answer = Answer(add, 1);
  EXPECT_FALSE(answer["ok"]);
  EXPECT_FALSE(registry->Find("a")) << "a component that does not compile is not stored";
  add["program_hash"] = std::string(64, '0');
  EXPECT_FALSE(Answer(add, 1)["ok"]) << "a wrong hash";
  EXPECT_EQ(Answer({{"type", "check_program"}, {"corr_id", 1}, {"name", "a"}, {"version", "0.1.0"}},
                   1)["result"],
            "false");
  json launch = Filled("launch_process");
  EXPECT_FALSE(Answer(launch, 1)["ok"]);
}

TEST_F(ConnectionTest, StopsReadingFromAClientThatReadsNothing) {
  Identify();
  EXPECT_TRUE(connection->Reads());
  for (size_t i = 0; i < limits.max_waiting_responses; ++i) {
    Send({{"type", "ping"}, {"corr_id", i}});
  }
  EXPECT_FALSE(connection->Reads());
  EXPECT_EQ(Answers().size(), limits.max_waiting_responses);
  EXPECT_TRUE(connection->Reads());
}

TEST_F(ConnectionTest, AnswersModelStatus) {
  Identify();
  const json answer =
      Answer({{"type", "query"}, {"corr_id", 1}, {"subject", "model_status"}, {"record", ""}});
  EXPECT_EQ(json::parse(answer["result"].get<std::string>())["models"][0]["name"], "default");
  EXPECT_FALSE(Answer({{"type", "query"}, {"corr_id", 1}, {"subject", "x"}, {"record", ""}})["ok"]);
}

TEST_F(ConnectionTest, WatchingShowsTheEngineAndNobodysThings) {
  Identify();
  const auto query = [&](const char* subject, const char* record, size_t jobs = 0) {
    return Answer({{"type", "query"}, {"corr_id", 1}, {"subject", subject}, {"record", record}},
                  jobs);
  };
  const json seen = json::parse(query("watch", "", 1)["result"].get<std::string>());
  EXPECT_EQ(seen["user"], "ada");
  EXPECT_EQ(seen["processes"], json::array());
  EXPECT_EQ(seen["models"][0]["name"], "default");
  EXPECT_EQ(query("watch", "")["result"], seen.dump())
      << "a client that asks too often gets the same answer";
  EXPECT_FALSE(query("watch", "soon")["ok"]);
  for (const char* record : {"", "nobody", "nobody 3", "nobody x", " "}) {
    EXPECT_FALSE(query("output", record, 1)["ok"]) << record;
  }
  const json library = json::parse(query("library", "", 1)["result"].get<std::string>());
  for (const char* part : {"programs", "snapshots", "adapters", "mcp_servers"}) {
    EXPECT_EQ(library[part], json::array()) << part;
  }
}

TEST_F(ConnectionTest, WhatAClientDoesNotReadIsBoundedByBytes) {
  Identify();
  const std::string id(4'000, 'x');
  for (int i = 0; i < 200 && connection->Reads(); ++i) {
    Send({{"type", "signal_process"}, {"process_id", id}, {"message", "m"}});
    Send({{"type", "query"}, {"corr_id", i}, {"subject", "model_status"}, {"record", ""}});
  }
  EXPECT_LT(service->sessions.buffered().used(), limits.max_waiting_response_bytes + (1u << 20));
  EXPECT_GT(service->sessions.buffered().used(), 0u) << "the user is charged for it";
  size_t bytes = 0;
  while (auto frame = connection->Next()) {
    bytes += frame->size();
    connection->Sent();
  }
  EXPECT_LT(bytes, 200'000u) << "an id that no process has is not sent back whole";
  EXPECT_EQ(service->sessions.buffered().used(), 0u);
}

TEST_F(ConnectionTest, MessagesThatArriveAreCharged) {
  Identify();
  EXPECT_TRUE(connection->Receiving(10 << 20));
  EXPECT_EQ(service->uploads.whole().used(), 10u << 20);
  EXPECT_FALSE(connection->Receiving(limits.max_uploads_bytes + 1));
  EXPECT_TRUE(connection->Receiving(0));
  EXPECT_EQ(service->uploads.whole().used(), 0u);
}

TEST_F(ConnectionTest, RefusedMcpServersLeaveNothing) {
  Identify();
  for (int i = 0; i < 100; ++i) {
    json message = Filled("register_mcp_server");
    message["name"] = "";
    EXPECT_FALSE(Answer(message)["ok"]);
  }
  EXPECT_TRUE(service->relays.empty());
  EXPECT_TRUE(Answer(Filled("register_mcp_server"))["ok"]);
  EXPECT_TRUE(Answer(Filled("register_mcp_server"))["ok"]) << "again";
  EXPECT_EQ(service->relays.size(), 1u);
}

class FewPlacesTest : public ConnectionTest {
 protected:
  FewPlacesTest() : ConnectionTest(false, {.max_connections = 10, .max_http_requests = 10}) {}
};

TEST_F(FewPlacesTest, ConnectionsOfAUserLeaveRoomForOthers) {
  Identify();
  (void)engine->users().Of("mallory");
  std::vector<std::shared_ptr<Connection>> held;
  const auto connect = [&](const char* user) {
    held.push_back(std::make_shared<Connection>(*service, &wire, "test"));
    const auto bytes =
        json::to_msgpack(json{{"type", "auth_identify"}, {"corr_id", 1}, {"username", user}});
    held.back()->OnFrame({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const bool known = held.back()->known();
    return known;
  };
  int connected = 0;
  for (int i = 0; i < 10; ++i) connected += connect("mallory") ? 1 : 0;
  EXPECT_GE(connected, 5);
  EXPECT_LE(connected, 8);
  EXPECT_TRUE(connect("ada"));
  for (const auto& one : held) one->OnClosed();
  held.clear();
  EXPECT_TRUE(connect("mallory")) << "places are given back";
  held.back()->OnClosed();
}

TEST_F(FewPlacesTest, HttpRequestsOfAUserLeaveRoomForOthers) {
  (void)engine->users().Of("ada");
  std::vector<std::shared_ptr<Exchange>> held;
  const auto ask = [&](const char* user) {
    const Door door{.program = "p", .username = user};
    auto call = FindCall(*service, &door, {.method = "GET", .target = "/"});
    if (const auto* refusal = std::get_if<HttpAnswer>(&call)) {
      EXPECT_EQ(refusal->status, 429u);
      EXPECT_EQ(json::parse(refusal->body)["error"]["code"], "rate_limit_exceeded");
      return false;
    }
    held.push_back(std::make_shared<Exchange>(*service, nullptr, std::get<Call>(call)));
    return true;
  };
  int answered = 0;
  for (int i = 0; i < 10; ++i) answered += ask("mallory") ? 1 : 0;
  EXPECT_EQ(answered, 8);
  EXPECT_TRUE(ask("ada"));
  held.clear();
  EXPECT_EQ(service->requests.whole().used(), 0u);
}

TEST_F(ConnectionTest, FilesOfThePageAreNotCopied) {
  const HttpAnswer answer = AnswerHttp(*service, {.method = "GET", .target = "/"});
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(answer.content(), "<!doctype html>");
  EXPECT_EQ(answer.content().data(), service->page.Find("/")->bytes.data());
  const Asked again{.method = "GET", .target = "/", .if_none_match = answer.headers[0].second};
  EXPECT_EQ(AnswerHttp(*service, again).status, 304u);
  EXPECT_TRUE(AnswerHttp(*service, again).content().empty());
}

TEST_F(ConnectionTest, MetricsAreInThePrometheusFormat) {
  const HttpAnswer answer = AnswerHttp(*service, {.method = "GET", .target = "/metrics"});
  EXPECT_EQ(answer.status, 200u);
  for (const char* name : {"pie_batches_total", "pie_tokens_total", "pie_pages_used",
                           "pie_pages_free", "pie_instances", "pie_queued_passes", "pie_price"}) {
    EXPECT_NE(answer.body.find(std::string("\n") + name + " "), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace pie::server
