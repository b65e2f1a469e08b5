#include "host/host_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "host/api.h"

namespace pie::host {
namespace {

const pie_bridge::HostTable kTable = {
    .handle_drop = HandleDrop,
    .handle_signal = HandleSignal,
    .runtime_version = RuntimeVersion,
    .runtime_instance_id = RuntimeInstanceId,
    .runtime_username = RuntimeUsername,
    .runtime_models = RuntimeModels,
    .runtime_launch = RuntimeLaunch,
    .child_get = ChildGet,
    .child_pid = ChildPid,
    .child_cancel = ChildCancel,
    .future_text_get = FutureTextGet,
    .future_blob_get = FutureBlobGet,
    .model_load = ModelLoad,
    .model_tokenizer = ModelTokenizer,
    .tokenizer_encode = TokenizerEncode,
    .tokenizer_decode = TokenizerDecode,
    .tokenizer_vocabs = TokenizerVocabs,
    .tokenizer_special_tokens = TokenizerSpecialTokens,
    .tokenizer_split_regex = TokenizerSplitRegex,
    .context_create = ContextCreate,
    .context_open = ContextOpen,
    .context_take = ContextTake,
    .context_delete = ContextDelete,
    .context_fork = ContextFork,
    .context_save = ContextSave,
    .context_snapshot = ContextSnapshot,
    .context_saved = ContextSaved,
    .context_destroy = ContextDestroy,
    .context_tokens_per_page = ContextTokensPerPage,
    .context_model = ContextModel,
    .context_committed_page_count = ContextCommittedPageCount,
    .context_working_page_count = ContextWorkingPageCount,
    .context_working_page_token_count = ContextWorkingPageTokenCount,
    .context_commit_working_pages = ContextCommitWorkingPages,
    .context_reserve_working_pages = ContextReserveWorkingPages,
    .context_release_working_pages = ContextReleaseWorkingPages,
    .context_truncate_working_page_tokens = ContextTruncateWorkingPageTokens,
    .context_suspend = ContextSuspend,
    .context_bid = ContextBid,
    .pass_new = PassNew,
    .pass_context = PassContext,
    .pass_input_tokens = PassInputTokens,
    .pass_input_speculative_tokens = PassInputSpeculativeTokens,
    .pass_output_speculative_tokens = PassOutputSpeculativeTokens,
    .pass_attention_mask = PassAttentionMask,
    .pass_logit_mask = PassLogitMask,
    .pass_sampler = PassSampler,
    .pass_adapter = PassAdapter,
    .pass_execute = PassExecute,
    .output_get = OutputGet,
    .grammar_from_json_schema = GrammarFromText,
    .grammar_json = GrammarJson,
    .grammar_from_regex = GrammarFromText,
    .grammar_from_ebnf = GrammarFromText,
    .grammar_to_string = GrammarToString,
    .matcher_new = MatcherNew,
    .matcher_accept_tokens = MatcherAcceptTokens,
    .matcher_next_token_logit_mask = MatcherNextTokenLogitMask,
    .matcher_is_terminated = MatcherIsTerminated,
    .matcher_reset = MatcherReset,
    .pass_seed = PassSeed,
    .output_failure = OutputFailure,
    .step_begin = StepBegin,
    .step_finish = StepFinish,
    .chain_run = ChainRun,
    .chain_take = ChainTake,
    .adapter_create = AdapterCreate,
    .adapter_open = AdapterOpen,
    .adapter_destroy = AdapterDestroy,
    .adapter_fork = AdapterFork,
    .adapter_load = AdapterFile,
    .adapter_save = AdapterFile,
    .zo_adapter_seed = ZoAdapterSeed,
    .zo_initialize = ZoInitialize,
    .zo_update = ZoUpdate,
    .scheduling_price = SchedulingPrice,
    .scheduling_rent = SchedulingRent,
    .scheduling_dividend = SchedulingDividend,
    .scheduling_latency = SchedulingLatency,
    .scheduling_balance = SchedulingBalance,
    .messaging_push = MessagingPush,
    .messaging_pull = MessagingPull,
    .messaging_broadcast = MessagingBroadcast,
    .messaging_subscribe = MessagingSubscribe,
    .subscription_get = SubscriptionGet,
    .subscription_unsubscribe = SubscriptionUnsubscribe,
    .session_room = SessionRoom,
    .session_send = SessionSend,
    .session_receive = SessionReceive,
    .session_send_file = SessionSendFile,
    .session_receive_file = SessionReceiveFile,
    .chat_system = ChatSystem,
    .chat_user = ChatUser,
    .chat_assistant = ChatAssistant,
    .chat_cue = ChatCue,
    .chat_seal = ChatSeal,
    .chat_stop_tokens = ChatStopTokens,
    .decoder_new = DecoderNew,
    .decoder_feed = DecoderFeed,
    .decoder_reset = DecoderReset,
    .decoder_assembling = DecoderAssembling,
    .chat_extend = ChatExtend,
    .tools_equip = ToolsEquip,
    .tools_answer = ToolsAnswer,
    .tools_format = ToolsFormat,
    .tools_matcher = ToolsMatcher,
    .mcp_available_servers = McpAvailableServers,
    .mcp_connect = McpConnect,
    .mcp_call = McpCall,
};

}  // namespace

const pie_bridge::HostTable& HostFunctions() {
  // The table is nothing but function pointers: a guest must never meet a missing one.
  using Pointers = std::array<uintptr_t, sizeof(kTable) / sizeof(uintptr_t)>;
  static const bool complete =
      std::ranges::none_of(std::bit_cast<Pointers>(kTable), [](uintptr_t f) { return f == 0; });
  PIE_CHECK(complete);
  return kTable;
}

}  // namespace pie::host
