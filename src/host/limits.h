// Limits of the host API: what one inferlet may hold or pass at once. Past a limit a call fails
// with an error that names it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pie::host {

struct Limits {
  uint32_t max_handles = 65'536;         // of each kind (contexts, passes, futures, …), an inferlet
  size_t max_input_bytes = 16ull << 20;  // the JSON an inferlet is launched with
  size_t max_message_bytes = 16ull << 20;   // one message or file
  size_t max_queued_messages = 4'096;       // in one queue, inbox or subscription
  size_t max_queued_bytes = 64ull << 20;    // in one queue, inbox or subscription
  size_t max_topics = 65'536;               // messaging topics alive at once
  size_t max_topic_bytes = 1'024;           // a topic's name
  size_t max_messaging_bytes = 1ull << 30;  // unread in all topics of a user
  size_t max_snapshots = 4'096;             // saved contexts, a user
  size_t max_snapshot_bytes = 16ull << 30;  // files of those
  size_t max_adapters = 1'024;              // adapters, a user
  size_t max_adapter_bytes = 8ull << 30;    // files of those
  size_t max_adapter_memory = 2ull << 30;   // adapters in memory, of all users
  size_t max_queued_saves = 1'024;          // contexts that wait to be written, of all users
  size_t max_queued_calls = 1'024;          // launches that wait for a thread; the same for opens
  size_t max_pass_bytes = 256ull << 20;     // passes being made or under way and unread results
  size_t max_turns = 4'096;                 // of one call for chat turns
  size_t max_turn_bytes = 16ull << 20;      // what they say, together
  uint32_t max_launch_depth = 8;            // inferlets that launch inferlets that …
  size_t max_processes = 16'384;            // inferlets that run or wait for their turn
  size_t max_inputs_bytes = 1ull << 30;     // the inputs of all of those
  size_t max_scratch_bytes = 1ull << 30;    // files in a process's /scratch
  size_t max_data_bytes = 1ull << 30;       // files in a user's /data
  size_t max_folder_entries = 100'000;      // files and folders in either
};

}  // namespace pie::host
