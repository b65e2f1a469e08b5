// Limits of the server, for everything that clients, alone or together, can make grow. A client
// that exceeds a limit gets an error that names the limit, or its connection is closed with a
// reason. Other clients are not affected.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pie::server {

struct Limits {
  size_t max_connections = 16'384;       // open at the same time
  size_t max_frame_bytes = 17ull << 20;  // of one message: the largest input and its envelope
  size_t max_map_entries = 32;           // fields of a message
  size_t max_list_entries = 256;         // entries of a field that is a list
  size_t max_name_bytes = 4'096;         // names, ids, hashes, signatures and tokens
  size_t max_username_bytes = 128;
  size_t max_unknown_frame_bytes = 64ull << 10;  // of one message before authentication
  size_t max_waiting_responses = 1'024;          // the client is not read from while this many wait
  size_t max_waiting_response_bytes = 1ull << 20;  // or this many bytes of them
  size_t max_ring_events = 4'096;          // events of a process that its client has not taken
  size_t max_ring_bytes = 32ull << 20;     // bytes of those events
  size_t max_buffered_bytes = 1ull << 30;  // events and responses that wait, of all clients
  size_t max_code_bytes = 2ull << 30;      // of compiled programs in memory; beyond it, some leave
  size_t max_sessions = 65'536;       // processes that run, or whose events clients have not read
  size_t max_ended_sessions = 1'024;  // ended processes whose last events are kept
  uint32_t ended_session_secs = 600;  // how long they are kept
  size_t max_upload_bytes = 256ull << 20;         // of a component; runtime.max_upload_mb
  size_t max_uploads_bytes = 1ull << 30;          // bytes of all uploads and messages in flight
  size_t max_uploads_per_connection = 8;          // in flight at the same time
  size_t max_manifest_bytes = 256ull << 10;       // of a Pie.toml
  size_t max_queued_jobs = 1'024;                 // installations and first launches in the queue
  size_t max_jobs_per_connection = 64;            // of all jobs, those of one client
  uint32_t auth_timeout_secs = 10;                // from connecting until authentication
  uint32_t idle_ping_secs = 20;                   // idle time after which a client is pinged …
  uint32_t pong_timeout_secs = 20;                // … and how long it has to answer, or to read
  size_t max_logged_stderr_bytes = 256ull << 10;  // per process, in the server's log
  size_t max_mcp_servers = 64;                    // registered by one client
  size_t max_mcp_requests = 64;                   // that wait for one client
  size_t max_mcp_request_bytes = 1ull << 20;      // parameters of one of those
  size_t max_mcp_result_bytes = 4ull << 20;       // the result of one
  uint32_t mcp_timeout_secs = 60;                 // how long a client has to answer it
  size_t max_http_header_bytes = 16ull << 10;     // of a request
  size_t max_http_body_bytes = 64ull << 20;       // of a request to an inferlet
  uint32_t http_body_secs = 300;                  // time to send it
  uint32_t linger_secs = 5;                       // a client may send on after its answer
  size_t max_http_requests = 4'096;               // that inferlets answer at the same time
  size_t max_daemons = 64;                        // ports of HTTP inferlets
  size_t max_daemon_input_bytes = 128ull << 10;   // each request to one gets a copy of its input
};

// Fixed by the protocol.
inline constexpr size_t kChunkBytes = 256ull << 10;

}  // namespace pie::server
