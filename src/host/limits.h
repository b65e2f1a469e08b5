// Limits of the host API: what one inferlet may hold or pass at once, and what the inferlets of all
// users may hold together. A call that exceeds a limit fails with an error that names the limit.
// Each user has a share of a limit for all users: see users.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pie::host {

struct Limits {
  uint32_t max_handles = 65'536;             // of one kind (contexts, passes, …) in one inferlet
  size_t max_input_bytes = 16ull << 20;      // the JSON an inferlet is launched with
  size_t max_message_bytes = 16ull << 20;    // one message or file
  size_t max_queued_messages = 4'096;        // in one queue, inbox or subscription
  size_t max_queued_bytes = 64ull << 20;     // in one queue, inbox or subscription
  size_t max_topics = 65'536;                // messaging topics alive at once, of all users
  size_t max_topic_bytes = 1'024;            // a topic's name
  size_t max_subscribers = 16'384;           // of one topic
  uint32_t topic_idle_secs = 3'600;          // a topic without readers is deleted after this time
  size_t max_messaging_bytes = 1ull << 30;   // unread in topics and inboxes, of all users
  size_t max_snapshots = 4'096;              // saved contexts of one user
  size_t max_snapshot_bytes = 16ull << 30;   // files of those
  size_t max_adapters = 1'024;               // adapters of one user
  size_t max_adapter_bytes = 8ull << 30;     // files of those
  size_t max_adapter_memory = 2ull << 30;    // adapters in memory, of all users
  size_t max_queued_saves = 1'024;           // contexts that wait to be written, of all users
  size_t max_queued_calls = 1'024;           // launches that wait for a thread; the same for opens
  size_t max_inferlet_bytes = 256ull << 20;  // of the engine's memory, by one inferlet
  size_t max_mask_bytes = 16ull << 20;       // attention masks of one context
  size_t max_turns = 4'096;                  // of one call for chat turns
  size_t max_turn_bytes = 16ull << 20;       // the texts of all turns together
  size_t max_host_bytes = 4ull << 30;       // of the engine's memory, by the inferlets of all users
  size_t max_linear_bytes = 16ull << 30;    // linear memory of the inferlets of all users
  size_t max_tokens_per_call = 1ull << 20;  // to decode in one call
  size_t max_text_bytes = 16ull << 20;      // to encode in one call
  size_t max_contexts = 262'144;            // that the inferlets of all users hold
  size_t max_passes = 8'192;                // passes and chains that wait or run, of all users
  size_t max_opened_contexts = 4'096;       // contexts opened from snapshots, whose files stay open
  size_t max_open_files = 8'192;            // files, streams and sockets of all users' inferlets
  uint32_t max_launch_depth = 8;            // depth of inferlets that launch inferlets
  size_t max_processes = 16'384;            // inferlets that run or wait for their turn
  size_t max_detached = 1'024;              // of those, the ones that outlive their parents
  size_t max_inputs_bytes = 1ull << 30;     // the inputs of all of those
  uint32_t user_share_percent = 80;         // share of a common limit that one user alone may take
  size_t max_scratch_bytes = 1ull << 30;    // files in a process's /scratch
  // Files in all /scratch folders; one user's inferlets have their share of it.
  size_t max_scratch_total_bytes = 16ull << 30;
  size_t max_data_bytes = 1ull << 30;         // files in a user's /data
  size_t max_folder_entries = 100'000;        // files and folders in either
  size_t max_scratch_entries = 1'000'000;     // files and folders in all /scratch folders
  size_t max_mcp_requests = 64;               // of one user, in flight to MCP servers of the config
  size_t max_mcp_request_bytes = 1ull << 20;  // parameters of one of those
  size_t max_mcp_result_bytes = 4ull << 20;   // the result of one
};

}  // namespace pie::host
