#include "server/watch.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <unordered_map>

#include "base/clock.h"
#include "sched/view.h"

namespace pie::server {
namespace {

using nlohmann::json;

constexpr auto kPause = std::chrono::milliseconds(150);
constexpr int64_t kOldestViewNs = 5'000'000'000;
constexpr uint32_t kMostCells = 4'096;
constexpr size_t kMostProcesses = 256;
constexpr size_t kMostListed = 256;

// The states of a cell of the page map. From kOwn on it is one of the user's processes, by its
// place in `owners`.
enum Cell : uint32_t { kFree = 0, kCached = 1, kOthers = 2, kShared = 3, kOwn = 4 };

Result<uint64_t> NumberIn(std::string_view text, std::string_view what) {
  uint64_t number = 0;
  if (text.empty()) return number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return Fail(Code::kInvalid, "{} must be a whole number, not '{}'", what, text.substr(0, 32));
}

json CountsOf(const Histogram& histogram) {
  json counts = json::array();
  for (size_t i = 0; i <= Histogram::kBounds; ++i) counts.push_back(histogram.count(i));
  return counts;
}

double InCredits(Credits amount) {
  return static_cast<double>(amount) / kCredit;
}

// The part of a view that one user sees.
class Seen {
 public:
  Seen(host::Engine& engine, const View& view, const std::vector<host::ProcessInfo>& processes)
      : view_(view) {
    std::unordered_map<uint64_t, const host::ProcessInfo*> own;
    for (const host::ProcessInfo& process : processes) own[process.number] = &process;
    for (const View::Account& account : view.accounts) {
      const auto found = own.find(account.owner);
      if (found == own.end()) {
        // A process, the user's own or not, may have ended since the view was made. Its pages are
        // free now, or cached.
        cells_.push_back(engine.Runs(account.owner) ? kOthers : kCached);
        continue;
      }
      cells_.push_back(kOwn + static_cast<uint32_t>(owners_.size()));
      owners_.push_back(found->second->id);
      accounts_.push_back({{"process_id", found->second->id},
                           {"balance", InCredits(account.balance)},
                           {"dividend", InCredits(account.dividend)},
                           {"contexts", account.contexts},
                           {"suspended", account.suspended},
                           {"pages_stored", account.pages_stored},
                           {"pages_dropped", account.pages_dropped}});
    }
  }

  const std::vector<std::string>& owners() const { return owners_; }
  const json& accounts() const { return accounts_; }

  // Runs of equal cells: [state, cells]. A cell that stands for several pages has the state that
  // most of them have.
  json Map(uint32_t pages_per_cell) const {
    json runs = json::array();
    uint32_t last = UINT32_MAX;
    uint32_t length = 0;
    const auto end_run = [&] {
      if (length > 0) runs.push_back({last, length});
      length = 0;
    };
    for (size_t first = 0; first < view_.pages.size(); first += pages_per_cell) {
      const uint32_t cell = MostOf(first, std::min(view_.pages.size(), first + pages_per_cell));
      if (cell != last) end_run();
      last = cell;
      ++length;
    }
    end_run();
    return runs;
  }

  // Pages in each state: [state, pages].
  json Totals() const {
    std::map<uint32_t, uint32_t> totals;
    for (const View::Page& page : view_.pages) ++totals[CellOf(page)];
    json list = json::array();
    for (const auto& [state, pages] : totals) list.push_back({state, pages});
    return list;
  }

  // Pages outside of the device, of all users: in host memory or files, and to be computed again.
  json Outside() const {
    uint64_t stored = 0, dropped = 0;
    for (const View::Account& account : view_.accounts) {
      stored += account.pages_stored;
      dropped += account.pages_dropped;
    }
    return {{"stored", stored}, {"dropped", dropped}};
  }

 private:
  uint32_t CellOf(const View::Page& page) const {
    switch (page.state) {
      case View::State::kFree:
        return kFree;
      case View::State::kCached:
        return kCached;
      case View::State::kHeld:
        return cells_[page.account];
      case View::State::kShared:
        break;
    }
    const uint32_t holder = cells_[page.account];
    return holder >= kOwn ? uint32_t{kShared} : holder;
  }
  uint32_t MostOf(size_t first, size_t last) const {
    if (last - first == 1) return CellOf(view_.pages[first]);
    std::map<uint32_t, size_t> pages;
    for (size_t i = first; i < last; ++i) ++pages[CellOf(view_.pages[i])];
    return std::ranges::max_element(pages, {}, [](const auto& entry) { return entry.second; })
        ->first;
  }

  const View& view_;
  std::vector<uint32_t> cells_;  // the state of each account's pages
  std::vector<std::string> owners_;
  json accounts_ = json::array();
};

json BatchesOf(const View& view, uint64_t since_us) {
  json bars = json::array();
  for (const BatchBar& bar : view.batches) {
    const int64_t begin_us = bar.begin_ns / 1'000;
    if (begin_us < static_cast<int64_t>(since_us)) continue;
    bars.push_back({begin_us, bar.busy_ns / 1'000, bar.batches, bar.members, bar.rows});
  }
  return bars;
}

json ModelOf(host::Engine& engine, host::LoadedModel& loaded,
             const std::vector<host::ProcessInfo>& processes, uint64_t since_us) {
  const SchedulerStats stats = loaded.scheduler->stats();
  const BackendInfo& info = loaded.scheduler->info();
  json model = {{"name", loaded.model.name},
                {"device", info.name},
                {"page_tokens", info.page_tokens},
                {"pages_total", stats.pages_total},
                {"pages_used", stats.pages_used},
                {"pages_cached", stats.pages_cached},
                {"contexts", stats.sequences},
                {"queued", stats.queued},
                {"batches_total", stats.steps},
                {"tokens_total", stats.tokens},
                {"tokens_saved_total", stats.prefix.tokens_saved},
                {"suspensions_total", stats.suspensions},
                {"price", stats.price}};
  const auto view = loaded.scheduler->Watch();
  const int64_t age_ns = view ? SteadyClock::Get().NowNs() - view->made_ns : kOldestViewNs;
  if (age_ns >= kOldestViewNs) return model;  // the next answer has a new one
  const Seen seen(engine, *view, processes);
  const auto pages = static_cast<uint32_t>(view->pages.size());
  const uint32_t pages_per_cell = std::max(1U, (pages + kMostCells - 1) / kMostCells);
  model["view"] = {{"age_ms", age_ns / 1'000'000},      {"pages_per_cell", pages_per_cell},
                   {"cells", seen.Map(pages_per_cell)}, {"totals", seen.Totals()},
                   {"owners", seen.owners()},           {"outside", seen.Outside()},
                   {"accounts", seen.accounts()},       {"batches", BatchesOf(*view, since_us)}};
  return model;
}

json ProcessesOf(Service& service, const std::string& user,
                 const std::vector<host::ProcessInfo>& processes) {
  std::unordered_map<std::string, bool> attached;
  for (const auto& session : service.sessions.Of(user)) {
    attached[session->id()] = session->attached();
  }
  const int64_t now_ns = SteadyClock::Get().NowNs();
  json list = json::array();
  for (const host::ProcessInfo& process : processes) {
    if (list.size() == kMostProcesses) break;
    const auto session = attached.find(process.id);
    list.push_back({{"process_id", process.id},
                    {"inferlet", process.program},
                    {"parent", process.parent},
                    {"waits", process.waits},
                    {"age_ms", (now_ns - process.launched_ns) / 1'000'000},
                    {"tokens", process.tokens},
                    {"has_output", session != attached.end()},
                    {"attached", session != attached.end() && session->second}});
  }
  return list;
}

json ParametersOf(const std::string& manifest_text) {
  json list = json::array();
  const auto manifest = host::ParseManifest(manifest_text, "Pie.toml");
  if (!manifest) return list;  // it was installed by an older version, which accepted it
  for (const host::Parameter& parameter : manifest->parameters) {
    list.push_back({{"name", parameter.name},
                    {"type", std::string(host::NameOf(parameter.type))},
                    {"optional", parameter.optional},
                    {"description", parameter.description}});
  }
  return list;
}

}  // namespace

const std::string* Watching::recent() const {
  const bool is_recent = answered_ && std::chrono::steady_clock::now() - *answered_ < kPause;
  return is_recent ? &answer_ : nullptr;
}

void Watching::Keep(std::string answer) {
  answer_ = std::move(answer);
  answered_ = std::chrono::steady_clock::now();
}

Result<uint64_t> WatchedSince(std::string_view record) {
  return NumberIn(record, "the record of the query 'watch'");
}

std::string DescribeEngine(Service& service, const std::string& user, uint64_t since_us) {
  const std::vector<host::ProcessInfo> processes = service.engine.ProcessesOf(user);
  json models = json::array();
  for (host::LoadedModel& loaded : service.engine.models()) {
    models.push_back(ModelOf(service.engine, loaded, processes, since_us));
  }
  const auto& pace = *service.engine.pace();
  const json answer = {{"version", PIE_VERSION},
                       {"user", user},
                       {"now_us", SteadyClock::Get().NowNs() / 1'000},
                       {"inferlets", service.engine.instances()},
                       {"connections", service.connections.load()},
                       {"first_token", CountsOf(pace.first_token)},
                       {"next_token", CountsOf(pace.next_token)},
                       {"first_bound_ms", Histogram::Bound(0) * 1e3},
                       {"processes", ProcessesOf(service, user, processes)},
                       {"processes_total", processes.size()},
                       {"models", models}};
  return answer.dump();
}

Result<std::string> WatchedOutput(Service& service, std::string_view user,
                                  std::string_view record) {
  const size_t space = std::min(record.find(' '), record.size());
  const std::string_view place = record.substr(std::min(space + 1, record.size()));
  const uint64_t from = PIE_TRY(NumberIn(place, "the place in the record of the query 'output'"));
  auto session = PIE_TRY(service.sessions.Find(record.substr(0, space), user));
  const Session::Seen seen = session->Look(from);
  // The client may ask for a place within a character.
  return json{{"next", seen.next}, {"cut", seen.cut}, {"text", seen.text}, {"ending", seen.ending}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::string> DescribeProgram(Service& service, std::string_view program) {
  const auto found = PIE_TRY(service.programs.registry().Find(program));
  const auto manifest = host::ParseManifest(found.manifest, "Pie.toml");
  return json{{"name", found.name},
              {"version", found.version},
              {"wasm_hash", found.wasm_hash},
              {"manifest_hash", found.manifest_hash},
              {"description", manifest ? manifest->description : ""},
              {"parameters", ParametersOf(found.manifest)}}
      .dump();
}

Result<std::string> DescribeLibrary(Service& service, std::string_view user,
                                    const std::vector<McpServerRef>& mcp_servers) {
  const auto installed = PIE_TRY(service.programs.registry().List());
  json programs = json::array();
  for (const InstalledProgram& program : installed) {
    if (programs.size() == kMostListed) break;
    programs.push_back({{"name", program.name},
                        {"version", program.version},
                        {"bytes", program.bytes},
                        {"installed_at", program.installed_at},
                        {"own", program.owner == user}});
  }
  json snapshots = json::array();
  for (const auto& snapshot : service.engine.snapshots().List(user, kMostListed)) {
    snapshots.push_back({{"name", snapshot.name},
                         {"model", snapshot.model},
                         {"tokens", snapshot.tokens},
                         {"bytes", snapshot.bytes},
                         {"saved_at", snapshot.saved_at}});
  }
  json adapters = json::array();
  for (const auto& adapter : service.engine.adapters().List(user, kMostListed)) {
    adapters.push_back({{"name", adapter.name},
                        {"model", adapter.model},
                        {"bytes", adapter.bytes},
                        {"resident", adapter.resident}});
  }
  json servers = json::array();
  for (const McpServerRef& server : mcp_servers) {
    servers.push_back({{"name", server.name}, {"from", server.of_config ? "config" : "client"}});
  }
  return json{{"programs", programs},
              {"programs_total", installed.size()},
              {"snapshots", snapshots},
              {"adapters", adapters},
              {"mcp_servers", servers}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<McpServerRef> McpServersOf(Service& service, std::string_view user) {
  std::set<std::string> names;
  size_t clients = 0;
  for (const Service::UsersRelay& of_user : service.relays) {
    if (clients == kMostListed || names.size() >= kMostListed) break;
    if (of_user.username != user) continue;
    const auto relay = of_user.relay.lock();
    if (!relay) continue;
    ++clients;
    for (std::string& name : relay->Names()) names.insert(std::move(name));
  }
  std::vector<McpServerRef> servers;
  for (const std::string& name : names) servers.push_back({.name = name, .of_config = false});
  if (host::McpPool* const pool = service.engine.mcp()) {
    for (std::string& name : pool->Of(std::string(user))->Names()) {
      servers.push_back({.name = std::move(name), .of_config = true});
    }
  }
  return servers;
}

}  // namespace pie::server
