// What all resources share: dropping a handle, and the signal behind a pollable.
#include "host/api.h"
#include "host/execute.h"

namespace pie::host {

bool HandleDrop(void* guest, HandleKind kind, uint32_t handle, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Process::Handles& handles = process.handles();
    switch (kind) {
      case HandleKind::Model:
        handles.models.Remove(handle);
        break;
      case HandleKind::Tokenizer:
        handles.tokenizers.Remove(handle);
        break;
      case HandleKind::Context:
        handles.contexts.Remove(handle);
        break;
      case HandleKind::ForwardPass:
        handles.passes.Remove(handle);
        break;
      case HandleKind::FutureOutput:
        handles.outputs.Remove(handle);
        break;
      case HandleKind::Chain:
        EndChain(process, *PIE_TRY(handles.chains.Get(handle)));
        handles.chains.Remove(handle);
        break;
      case HandleKind::FutureText:
        handles.texts.Remove(handle);
        break;
      case HandleKind::FutureBlob:
        handles.blobs.Remove(handle);
        break;
      case HandleKind::Child:
        handles.children.Remove(handle);
        break;
      case HandleKind::Subscription: {
        auto* subscription = PIE_TRY(handles.subscriptions.Get(handle));
        (*subscription)->Close();
        handles.subscriptions.Remove(handle);
        break;
      }
      case HandleKind::ChatDecoder:
        handles.chat_decoders.Remove(handle);
        break;
      case HandleKind::ReasoningDecoder:
        handles.reasoning_decoders.Remove(handle);
        break;
      case HandleKind::ToolDecoder:
        handles.tool_decoders.Remove(handle);
        break;
      case HandleKind::Saving:
        handles.savings.Remove(handle);
        break;
      // Kinds that no call hands out in this build.
      case HandleKind::Grammar:
      case HandleKind::Matcher:
      case HandleKind::Adapter:
      case HandleKind::McpSession:
        break;
    }
    return {};
  });
}

bool HandleSignal(void* guest, HandleKind kind, uint32_t handle, const pie_bridge::Signal** signal,
                  Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Process::Handles& handles = process.handles();
    switch (kind) {
      case HandleKind::FutureOutput:
        *signal = (*PIE_TRY(handles.outputs.Get(handle)))->signal.raw();
        break;
      case HandleKind::Chain:
        *signal = PIE_TRY(handles.chains.Get(handle))->output->signal().raw();
        break;
      case HandleKind::FutureText:
        *signal = (*PIE_TRY(handles.texts.Get(handle)))->signal().raw();
        break;
      case HandleKind::FutureBlob:
        *signal = (*PIE_TRY(handles.blobs.Get(handle)))->signal().raw();
        break;
      case HandleKind::Child:
        *signal = (*PIE_TRY(handles.children.Get(handle)))->exit_signal().raw();
        break;
      case HandleKind::Subscription:
        *signal = (*PIE_TRY(handles.subscriptions.Get(handle)))->signal().raw();
        break;
      case HandleKind::Saving:
        *signal = (*PIE_TRY(handles.savings.Get(handle)))->signal.raw();
        break;
      default:
        return Fail(Code::kInvalid, "this kind of handle cannot be waited for");
    }
    return {};
  });
}

}  // namespace pie::host
