#include "server/status.h"

#include <algorithm>
#include <iterator>

namespace pie::server {
namespace {

class Writer {
 public:
  template <class T>
  void Value(std::string_view name, std::string_view type, std::string_view help, T value) {
    fmt::format_to(std::back_inserter(text_), "# HELP {0} {2}\n# TYPE {0} {1}\n{0} {3}\n", name,
                   type, help, value);
  }
  void Times(std::string_view name, std::string_view help, const Histogram& histogram) {
    auto out = std::back_inserter(text_);
    fmt::format_to(out, "# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
    uint64_t count = 0;
    for (size_t i = 0; i < Histogram::kBounds; ++i) {
      count += histogram.count(i);
      fmt::format_to(out, "{}_bucket{{le=\"{}\"}} {}\n", name, Histogram::Bound(i), count);
    }
    count += histogram.count(Histogram::kBounds);
    fmt::format_to(out, "{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, count,
                   histogram.sum_seconds());
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

nlohmann::json ModelStatus(host::Engine& engine) {
  nlohmann::json models = nlohmann::json::array();
  for (host::LoadedModel& loaded : engine.models()) {
    const SchedulerStats stats = loaded.scheduler->stats();
    models.push_back({{"name", loaded.model.name},
                      {"sequences", stats.sequences},
                      {"pages_used", stats.pages_used},
                      {"pages_total", stats.pages_total},
                      {"queued", stats.queued},
                      {"steps", stats.steps},
                      {"tokens", stats.tokens},
                      {"pages_cached", stats.pages_cached},
                      {"prefix_tokens_saved", stats.prefix.tokens_saved}});
  }
  return {{"models", models}, {"version", PIE_VERSION}};
}

std::string MetricsText(Service& service) {
  Writer writer;
  // This does not call Engine::stats, which visits all topics: any client may ask for metrics, and
  // the thread of all connections answers.
  uint64_t steps = 0, tokens = 0, queued = 0, total = 0, used = 0, cached = 0, restored = 0;
  uint64_t suspensions = 0, replayed = 0, drafted = 0, confirmed = 0, steps_ahead = 0,
           integrity_failures = 0;
  double price = 0;
  PrefixStats prefix;
  for (host::LoadedModel& loaded : service.engine.models()) {
    const SchedulerStats scheduler = loaded.scheduler->stats();
    steps += scheduler.steps;
    steps_ahead += scheduler.steps_ahead;
    integrity_failures += scheduler.integrity_failures;
    tokens += scheduler.tokens;
    queued += scheduler.queued;
    total += scheduler.pages_total;
    used += scheduler.pages_used;
    cached += scheduler.pages_cached;
    restored += scheduler.pages_restored;
    prefix.hits += scheduler.prefix.hits;
    prefix.tokens_saved += scheduler.prefix.tokens_saved;
    prefix.merged += scheduler.prefix.merged;
    prefix.evictions += scheduler.prefix.evictions;
    suspensions += scheduler.suspensions;
    replayed += scheduler.replayed_tokens;
    drafted += scheduler.drafted;
    confirmed += scheduler.confirmed;
    price = std::max(price, scheduler.price);
  }
  writer.Value("pie_batches_total", "counter", "Batches run by the devices.", steps);
  writer.Value("pie_batches_ahead_total", "counter",
               "Batches submitted while another batch was in flight.", steps_ahead);
  writer.Value("pie_integrity_failures_total", "counter",
               "Checks of the KV page counts, made while idle, that found a mismatch. Above 0 only "
               "by a bug.",
               integrity_failures);
  writer.Value("pie_tokens_total", "counter", "Tokens computed by the devices.", tokens);
  writer.Value("pie_queued_passes", "gauge", "Passes waiting for a device.", queued);
  writer.Value("pie_pages_used", "gauge", "KV pages in use.", used);
  writer.Value("pie_pages_free", "gauge", "KV pages that are free.", total - used);
  writer.Value("pie_pages_cached", "gauge", "Free KV pages whose content can still be reused.",
               cached);
  writer.Value("pie_prefix_hits_total", "counter", "KV pages reused from the prefix cache.",
               prefix.hits);
  writer.Value("pie_prefix_tokens_saved_total", "counter",
               "Tokens reused or copied instead of computed.", prefix.tokens_saved);
  writer.Value("pie_prefix_merged_total", "counter", "KV pages merged with an identical page.",
               prefix.merged);
  writer.Value("pie_prefix_evictions_total", "counter", "Cached KV pages evicted.",
               prefix.evictions);
  writer.Value("pie_pages_restored_total", "counter",
               "KV pages read back from swap or from saved contexts.", restored);
  writer.Value("pie_instances", "gauge", "Inferlets running.", service.engine.instances());
  writer.Value("pie_snapshots", "gauge", "Context snapshots in memory.",
               service.engine.snapshots().size());
  writer.Value("pie_snapshots_saved_total", "counter", "Context snapshots saved to files.",
               service.engine.snapshots().saved());
  const host::AdapterStats adapters = service.engine.adapters().stats();
  writer.Value("pie_adapters_resident", "gauge", "Adapters in memory.", adapters.resident);
  writer.Value("pie_adapter_bytes", "gauge", "Bytes of adapters in memory.", adapters.bytes);
  writer.Value("pie_adapter_loads_total", "counter", "Adapters read from files.", adapters.loads);
  writer.Value("pie_adapter_evictions_total", "counter", "Adapters evicted from memory.",
               adapters.evictions);
  writer.Value("pie_zo_updates_total", "counter", "Updates of adapters by zeroth-order tuning.",
               adapters.updates);
  writer.Value("pie_sessions", "gauge", "Processes that clients can attach to.",
               service.sessions.size());
  writer.Value("pie_connections", "gauge", "Connected clients.", service.connections.load());
  writer.Value("pie_messages_total", "counter", "Messages from clients.", service.messages.load());
  writer.Value("pie_bad_frames_total", "counter", "Frames that were not valid messages.",
               service.bad_frames.load());
  writer.Value("pie_connections_refused_total", "counter",
               "Connections refused because of the limit.", service.refused.load());
  writer.Value("pie_launches_total", "counter", "Processes launched.", service.launches.load());
  writer.Value("pie_queued_jobs", "gauge", "Installations and first launches in the queue.",
               service.work.size());
  writer.Value("pie_buffered_bytes", "gauge", "Bytes of events that no client has taken yet.",
               service.sessions.buffered().used());
  writer.Value("pie_upload_bytes", "gauge", "Bytes of uploads in flight.",
               service.uploads.whole().used());
  writer.Times("pie_ttft_seconds", "Time from a launch to its first token.",
               service.engine.pace()->first_token);
  writer.Times("pie_tpot_seconds", "Time between two tokens of a process.",
               service.engine.pace()->next_token);
  writer.Times("pie_wake_up_seconds", "Time from the end of a pass until its inferlet runs.",
               service.engine.pace()->wake_up);
  writer.Value("pie_price", "gauge",
               "Price of a page per tick in credits, the highest of all models.", price);
  writer.Value("pie_suspensions_total", "counter", "Contexts suspended: they lost their pages.",
               suspensions);
  writer.Value("pie_drafted_tokens_total", "counter", "Tokens that were guessed and verified.",
               drafted);
  writer.Value("pie_confirmed_tokens_total", "counter", "Guessed tokens that were right.",
               confirmed);
  writer.Value("pie_replayed_tokens_total", "counter", "Tokens computed again after a suspension.",
               replayed);
  return writer.Take();
}

}  // namespace pie::server
