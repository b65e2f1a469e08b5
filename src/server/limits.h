// Limits of the server: what clients, together or alone, can make grow. Past a limit the client
// gets an error that names it, or its connection ends with a reason; others notice nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pie::server {

struct Limits {
  size_t max_connections = 16'384;       // open at once
  size_t max_frame_bytes = 17ull << 20;  // one message of a client: an input and a bit
  size_t max_map_entries = 32;           // fields of a message
  size_t max_list_entries = 256;         // of a field that is a list
  size_t max_username_bytes = 128;
  size_t max_waiting_responses = 1'024;      // a client that reads none is not read from either
  size_t max_ring_events = 4'096;            // of a process that its client has not taken
  size_t max_ring_bytes = 32ull << 20;       // of those
  size_t max_buffered_bytes = 1ull << 30;    // of those, of all processes
  size_t max_ended_sessions = 1'024;         // ended processes whose last words wait
  uint32_t ended_session_secs = 600;         // how long they wait
  size_t max_upload_bytes = 256ull << 20;    // a component; runtime.max_upload_mb
  size_t max_uploads_bytes = 1ull << 30;     // of all uploads under way
  size_t max_uploads_a_connection = 8;       // under way at once
  size_t max_manifest_bytes = 256ull << 10;  // a Pie.toml
  size_t max_queued_jobs = 1'024;            // installations and first launches that wait
  size_t max_jobs_a_connection = 64;         // of one client
  uint32_t auth_timeout_secs = 10;           // from connecting to being known
  uint32_t idle_ping_secs = 20;              // silence after which a client is pinged …
  uint32_t pong_timeout_secs = 20;           // … and how long it has to answer, or to read
  size_t max_logged_stderr_bytes = 256ull << 10;  // of a process, in the server's log
  size_t max_http_header_bytes = 16ull << 10;     // of a request
};

// Fixed by the protocol.
inline constexpr size_t kChunkBytes = 256ull << 10;

}  // namespace pie::server
