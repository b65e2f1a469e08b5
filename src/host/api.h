// Every function of the host API, as src/host/api_*.cc define them. The table in host_table.cc
// names each once.
#pragma once

#include <cstdint>

#include "host/answer.h"

namespace pie::host {

// api_handles.cc
bool HandleDrop(void* guest, HandleKind kind, uint32_t handle, Out* out);
bool HandleSignal(void* guest, HandleKind kind, uint32_t handle, const pie_bridge::Signal** signal,
                  Out* out);

// api_runtime.cc
bool RuntimeVersion(void* guest, Out* out);
bool RuntimeInstanceId(void* guest, Out* out);
bool RuntimeUsername(void* guest, Out* out);
bool RuntimeModels(void* guest, Out* out);
bool RuntimeLaunch(void* guest, Str program, Str input, uint32_t* child, Out* out);
bool ChildGet(void* guest, uint32_t child, uint32_t* state, Out* out);
bool ChildPid(void* guest, uint32_t child, Out* out);
bool ChildCancel(void* guest, uint32_t child, Out* out);

// api_model.cc
bool ModelLoad(void* guest, Str name, uint32_t* model, Out* out);
bool ModelTokenizer(void* guest, uint32_t model, uint32_t* tokenizer, Out* out);
bool TokenizerEncode(void* guest, uint32_t tokenizer, Str text, Out* out);
bool TokenizerDecode(void* guest, uint32_t tokenizer, Words tokens, Out* out);
bool TokenizerVocabs(void* guest, uint32_t tokenizer, Out* out);
bool TokenizerSpecialTokens(void* guest, uint32_t tokenizer, Out* out);
bool TokenizerSplitRegex(void* guest, uint32_t tokenizer, Out* out);

// api_context.cc
bool ContextCreate(void* guest, uint32_t model, uint32_t* context, Out* out);
bool ContextOpen(void* guest, uint32_t model, Str name, uint32_t* context, Out* out);
bool ContextTake(void* guest, uint32_t model, Str name, uint32_t* context, Out* out);
bool ContextDelete(void* guest, uint32_t model, Str name, Out* out);
bool ContextFork(void* guest, uint32_t context, uint32_t* child, Out* out);
bool ContextSave(void* guest, uint32_t context, Str name, uint32_t* saving, Out* out);
bool ContextSnapshot(void* guest, uint32_t context, uint32_t* saving, Out* out);
bool ContextSaved(void* guest, uint32_t saving, Out* out);
bool ContextDestroy(void* guest, uint32_t context, Out* out);
bool ContextTokensPerPage(void* guest, uint32_t context, uint32_t* value, Out* out);
bool ContextModel(void* guest, uint32_t context, uint32_t* model, Out* out);
bool ContextCommittedPageCount(void* guest, uint32_t context, uint32_t* value, Out* out);
bool ContextWorkingPageCount(void* guest, uint32_t context, uint32_t* value, Out* out);
bool ContextWorkingPageTokenCount(void* guest, uint32_t context, uint32_t* value, Out* out);
bool ContextCommitWorkingPages(void* guest, uint32_t context, uint32_t n, Out* out);
bool ContextReserveWorkingPages(void* guest, uint32_t context, uint32_t n, Out* out);
bool ContextReleaseWorkingPages(void* guest, uint32_t context, uint32_t n, Out* out);
bool ContextTruncateWorkingPageTokens(void* guest, uint32_t context, uint32_t n, Out* out);
bool ContextSuspend(void* guest, uint32_t context, Out* out);
bool ContextBid(void* guest, uint32_t context, double value, Out* out);

// api_inference.cc
bool PassNew(void* guest, uint32_t model, uint32_t* pass, Out* out);
bool PassContext(void* guest, uint32_t pass, uint32_t context, Out* out);
bool PassInputTokens(void* guest, uint32_t pass, Words tokens, Words positions, Out* out);
bool PassInputSpeculativeTokens(void* guest, uint32_t pass, Words tokens, Words, Out* out);
bool PassOutputSpeculativeTokens(void* guest, uint32_t pass, bool enable, Out* out);
bool PassAttentionMask(void* guest, uint32_t pass, const Words* rows, size_t count, Out* out);
bool PassLogitMask(void* guest, uint32_t pass, Words mask, Out* out);
bool PassSampler(void* guest, uint32_t pass, Words rows, const pie_bridge::Sampler* sampler,
                 Out* out);
bool PassSeed(void* guest, uint32_t pass, uint64_t seed, Out* out);
bool PassExecute(void* guest, uint32_t pass, uint32_t* future, Out* out);
bool OutputGet(void* guest, uint32_t future, bool* ready, Out* out);
bool OutputFailure(void* guest, uint32_t future, bool* failed, Out* out);

// api_step.cc
bool StepBegin(void* guest, uint32_t context, Words tokens, Words logit_mask, const uint64_t* seed,
               const pie_bridge::Sampler* sampler, uint32_t* future, Out* out);
bool StepFinish(void* guest, uint32_t future, const pie_bridge::Signal** signal, bool* is_token,
                uint32_t* token, Out* out);

// api_chain.cc
bool ChainRun(void* guest, uint32_t pass, uint32_t max_tokens, Words stops, uint32_t* chain,
              Out* out);
bool ChainTake(void* guest, uint32_t chain, pie_bridge::ChainState* state, Out* out);

// api_scheduling.cc
bool SchedulingPrice(void* guest, double* value, Out* out);
bool SchedulingRent(void* guest, uint32_t context, double* value, Out* out);
bool SchedulingDividend(void* guest, uint32_t model, double* value, Out* out);
bool SchedulingLatency(void* guest, uint32_t context, double* value, Out* out);
bool SchedulingBalance(void* guest, uint32_t model, double* value, Out* out);

// api_messaging.cc
bool FutureTextGet(void* guest, uint32_t future, bool* ready, Out* out);
bool FutureBlobGet(void* guest, uint32_t future, bool* ready, Out* out);
bool MessagingPush(void* guest, Str topic, Str message, Out* out);
bool MessagingPull(void* guest, Str topic, uint32_t* future, Out* out);
bool MessagingBroadcast(void* guest, Str topic, Str message, Out* out);
bool MessagingSubscribe(void* guest, Str topic, uint32_t* subscription, Out* out);
bool SubscriptionGet(void* guest, uint32_t subscription, bool* ready, Out* out);
bool SubscriptionUnsubscribe(void* guest, uint32_t subscription, Out* out);
const pie_bridge::Signal* SessionRoom(void* guest);
bool SessionSend(void* guest, Str message, Out* out);
bool SessionReceive(void* guest, uint32_t* future, Out* out);
bool SessionSendFile(void* guest, Str data, Out* out);
bool SessionReceiveFile(void* guest, uint32_t* future, Out* out);

// api_instruct.cc
bool ChatSystem(void* guest, uint32_t model, Str text, Out* out);
bool ChatUser(void* guest, uint32_t model, Str text, Out* out);
bool ChatAssistant(void* guest, uint32_t model, Str text, Out* out);
bool ChatCue(void* guest, uint32_t model, Out* out);
bool ChatSeal(void* guest, uint32_t model, Out* out);
bool ChatStopTokens(void* guest, uint32_t model, Out* out);
bool DecoderNew(void* guest, HandleKind kind, uint32_t model, uint32_t* decoder, Out* out);
bool DecoderFeed(void* guest, HandleKind, uint32_t decoder, Words tokens, pie_bridge::Event* event,
                 Out* out);
bool DecoderReset(void* guest, HandleKind, uint32_t decoder, Out* out);
bool DecoderAssembling(void* guest, uint32_t decoder, bool* value, Out* out);
bool ChatExtend(void* guest, uint32_t model, const pie_bridge::TurnKind* before,
                size_t before_count, const pie_bridge::TemplateTurn* turns, size_t turns_count,
                Out* out);
bool ToolsEquip(void* guest, uint32_t model, const Str*, size_t, Out* out);
bool ToolsAnswer(void* guest, uint32_t model, Str, Str, Out* out);
bool ToolsFormat(void* guest, uint32_t model, const Str*, size_t, uint32_t*, bool* found, Out* out);
bool ToolsMatcher(void* guest, uint32_t model, const Str*, size_t, uint32_t*, Out* out);

// api_unavailable.cc
bool GrammarFromText(void* guest, Str, uint32_t*, Out* out);
bool GrammarJson(void* guest, uint32_t*, Out* out);
bool GrammarToString(void* guest, uint32_t, Out* out);
bool MatcherNew(void* guest, uint32_t, uint32_t, uint32_t*, Out* out);
bool MatcherAcceptTokens(void* guest, uint32_t, Words, Out* out);
bool MatcherNextTokenLogitMask(void* guest, uint32_t, Out* out);
bool MatcherIsTerminated(void* guest, uint32_t, bool*, Out* out);
bool MatcherReset(void* guest, uint32_t, Out* out);
bool PassAdapter(void* guest, uint32_t, uint32_t, Out* out);
bool AdapterCreate(void* guest, uint32_t, Str, uint32_t*, Out* out);
bool AdapterOpen(void* guest, uint32_t, Str, uint32_t*, bool* found, Out* out);
bool AdapterDestroy(void* guest, uint32_t, Out* out);
bool AdapterFork(void* guest, uint32_t, Str, uint32_t*, Out* out);
bool AdapterFile(void* guest, uint32_t, Str, Out* out);
bool ZoAdapterSeed(void* guest, uint32_t, int64_t, Out* out);
bool ZoInitialize(void* guest, uint32_t, uint32_t, float, uint32_t, float, float, Out* out);
bool ZoUpdate(void* guest, uint32_t, const float*, const int64_t*, size_t, float, Out* out);
bool McpAvailableServers(void* guest, Out* out);
bool McpConnect(void* guest, Str, uint32_t*, int32_t* code, Out* out);
bool McpCall(void* guest, uint32_t, Str, Str, Str, int32_t* code, Out* out);

}  // namespace pie::host
