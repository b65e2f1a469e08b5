//! The functions that C++ (`src/host`) implements, one a WIT function.
//!
//! Every function takes the guest's object first and returns whether it went well. If not, `out` holds the error's text: the
//! guest gets it where its WIT function returns a result, and traps with it where not. Handles are `u32`s of C++'s own tables.
use crate::abi::{GuestPtr, Out, Str, Words};
use crate::text::template::{TemplateTurn, TurnKind};
use crate::wasm::Signal;

/// A sampler or probe (`pie:core/inference.sampler`), flat.
#[repr(C)]
pub struct Sampler {
    pub kind: SamplerKind,
    pub temperature: f32,
    /// k, or the number of draws.
    pub count: u32,
    pub p: f32,
    /// The tokens of `Logprobs`.
    pub tokens: Words,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub enum SamplerKind {
    Multinomial,
    TopK,
    TopP,
    MinP,
    TopKTopP,
    Embedding,
    Distribution,
    Logits,
    Logprobs,
    Entropy,
}

/// What a decoder saw.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub enum EventKind {
    /// A block opens (reasoning, tool call).
    #[default]
    Start,
    /// Text in `out`.
    Delta,
    /// A control token in `token`.
    Interrupt,
    /// The whole text in `out`.
    Done,
    /// Two blobs in `out`: name and arguments.
    Call,
}

/// A decoder's event: its kind, and a token where the kind has one.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Event {
    pub kind: EventKind,
    pub token: u32,
}

/// Where a chain stands.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub enum ChainState {
    #[default]
    Runs,
    Stopped,
    AtLimit,
    Cancelled,
}

/// Which family of handles.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum HandleKind {
    Model,
    Tokenizer,
    Context,
    ForwardPass,
    FutureOutput,
    FutureText,
    FutureBlob,
    Child,
    Subscription,
    ChatDecoder,
    ReasoningDecoder,
    ToolDecoder,
    Grammar,
    Matcher,
    Adapter,
    McpSession,
    Chain,
    Saving,
}

/// A JSON-RPC error code beside the text in `out`.
pub type McpCode = i32;

#[repr(C)]
pub struct HostTable {
    // every handle
    /// The guest let go of a handle.
    pub handle_drop:
        extern "C" fn(guest: GuestPtr, kind: HandleKind, handle: u32, out: *mut Out) -> bool,
    /// The signal behind a future, child or subscription; null = ready for ever.
    pub handle_signal: extern "C" fn(
        guest: GuestPtr,
        kind: HandleKind,
        handle: u32,
        signal: *mut *const Signal,
        out: *mut Out,
    ) -> bool,
    // pie:core/runtime
    pub runtime_version: extern "C" fn(guest: GuestPtr, out: *mut Out) -> bool,
    pub runtime_instance_id: extern "C" fn(guest: GuestPtr, out: *mut Out) -> bool,
    pub runtime_username: extern "C" fn(guest: GuestPtr, out: *mut Out) -> bool,
    /// Blobs: the names.
    pub runtime_models: extern "C" fn(guest: GuestPtr, out: *mut Out) -> bool,
    pub runtime_launch: extern "C" fn(
        guest: GuestPtr,
        program: Str,
        input: Str,
        child: *mut u32,
        out: *mut Out,
    ) -> bool,
    /// `state`: 0 runs, 1 returned, 2 failed; text: value or error.
    pub child_get:
        extern "C" fn(guest: GuestPtr, child: u32, state: *mut u32, out: *mut Out) -> bool,
    pub child_pid: extern "C" fn(guest: GuestPtr, child: u32, out: *mut Out) -> bool,
    pub child_cancel: extern "C" fn(guest: GuestPtr, child: u32, out: *mut Out) -> bool,
    // pie:core/types
    /// `ready` says whether the text is there.
    pub future_text_get:
        extern "C" fn(guest: GuestPtr, future: u32, ready: *mut bool, out: *mut Out) -> bool,
    pub future_blob_get:
        extern "C" fn(guest: GuestPtr, future: u32, ready: *mut bool, out: *mut Out) -> bool,
    // pie:core/model
    pub model_load:
        extern "C" fn(guest: GuestPtr, name: Str, model: *mut u32, out: *mut Out) -> bool,
    pub model_tokenizer:
        extern "C" fn(guest: GuestPtr, model: u32, tokenizer: *mut u32, out: *mut Out) -> bool,
    /// Words: the tokens.
    pub tokenizer_encode:
        extern "C" fn(guest: GuestPtr, tokenizer: u32, text: Str, out: *mut Out) -> bool,
    pub tokenizer_decode:
        extern "C" fn(guest: GuestPtr, tokenizer: u32, tokens: Words, out: *mut Out) -> bool,
    /// Words and blobs.
    pub tokenizer_vocabs: extern "C" fn(guest: GuestPtr, tokenizer: u32, out: *mut Out) -> bool,
    /// Words and blobs.
    pub tokenizer_special_tokens:
        extern "C" fn(guest: GuestPtr, tokenizer: u32, out: *mut Out) -> bool,
    pub tokenizer_split_regex:
        extern "C" fn(guest: GuestPtr, tokenizer: u32, out: *mut Out) -> bool,
    // pie:core/context
    pub context_create:
        extern "C" fn(guest: GuestPtr, model: u32, context: *mut u32, out: *mut Out) -> bool,
    pub context_open: extern "C" fn(
        guest: GuestPtr,
        model: u32,
        name: Str,
        context: *mut u32,
        out: *mut Out,
    ) -> bool,
    pub context_take: extern "C" fn(
        guest: GuestPtr,
        model: u32,
        name: Str,
        context: *mut u32,
        out: *mut Out,
    ) -> bool,
    pub context_delete:
        extern "C" fn(guest: GuestPtr, model: u32, name: Str, out: *mut Out) -> bool,
    pub context_fork:
        extern "C" fn(guest: GuestPtr, context: u32, child: *mut u32, out: *mut Out) -> bool,
    /// Begins to save; `saving` has a signal that fires at the end.
    pub context_save: extern "C" fn(
        guest: GuestPtr,
        context: u32,
        name: Str,
        saving: *mut u32,
        out: *mut Out,
    ) -> bool,
    pub context_snapshot:
        extern "C" fn(guest: GuestPtr, context: u32, saving: *mut u32, out: *mut Out) -> bool,
    /// How a save ended, and under which name. Lets go of `saving`.
    pub context_saved: extern "C" fn(guest: GuestPtr, saving: u32, out: *mut Out) -> bool,
    pub context_destroy: extern "C" fn(guest: GuestPtr, context: u32, out: *mut Out) -> bool,
    pub context_tokens_per_page:
        extern "C" fn(guest: GuestPtr, context: u32, value: *mut u32, out: *mut Out) -> bool,
    pub context_model:
        extern "C" fn(guest: GuestPtr, context: u32, model: *mut u32, out: *mut Out) -> bool,
    pub context_committed_page_count:
        extern "C" fn(guest: GuestPtr, context: u32, value: *mut u32, out: *mut Out) -> bool,
    pub context_working_page_count:
        extern "C" fn(guest: GuestPtr, context: u32, value: *mut u32, out: *mut Out) -> bool,
    pub context_working_page_token_count:
        extern "C" fn(guest: GuestPtr, context: u32, value: *mut u32, out: *mut Out) -> bool,
    pub context_commit_working_pages:
        extern "C" fn(guest: GuestPtr, context: u32, n: u32, out: *mut Out) -> bool,
    pub context_reserve_working_pages:
        extern "C" fn(guest: GuestPtr, context: u32, n: u32, out: *mut Out) -> bool,
    pub context_release_working_pages:
        extern "C" fn(guest: GuestPtr, context: u32, n: u32, out: *mut Out) -> bool,
    pub context_truncate_working_page_tokens:
        extern "C" fn(guest: GuestPtr, context: u32, n: u32, out: *mut Out) -> bool,
    pub context_suspend: extern "C" fn(guest: GuestPtr, context: u32, out: *mut Out) -> bool,
    pub context_bid:
        extern "C" fn(guest: GuestPtr, context: u32, value: f64, out: *mut Out) -> bool,
    // pie:core/inference
    pub pass_new: extern "C" fn(guest: GuestPtr, model: u32, pass: *mut u32, out: *mut Out) -> bool,
    pub pass_context:
        extern "C" fn(guest: GuestPtr, pass: u32, context: u32, out: *mut Out) -> bool,
    pub pass_input_tokens: extern "C" fn(
        guest: GuestPtr,
        pass: u32,
        tokens: Words,
        positions: Words,
        out: *mut Out,
    ) -> bool,
    pub pass_input_speculative_tokens: extern "C" fn(
        guest: GuestPtr,
        pass: u32,
        tokens: Words,
        positions: Words,
        out: *mut Out,
    ) -> bool,
    pub pass_output_speculative_tokens:
        extern "C" fn(guest: GuestPtr, pass: u32, enable: bool, out: *mut Out) -> bool,
    pub pass_attention_mask: extern "C" fn(
        guest: GuestPtr,
        pass: u32,
        rows: *const Words,
        count: usize,
        out: *mut Out,
    ) -> bool,
    pub pass_logit_mask:
        extern "C" fn(guest: GuestPtr, pass: u32, mask: Words, out: *mut Out) -> bool,
    pub pass_sampler: extern "C" fn(
        guest: GuestPtr,
        pass: u32,
        rows: Words,
        sampler: *const Sampler,
        out: *mut Out,
    ) -> bool,
    pub pass_adapter:
        extern "C" fn(guest: GuestPtr, pass: u32, adapter: u32, out: *mut Out) -> bool,
    pub pass_execute:
        extern "C" fn(guest: GuestPtr, pass: u32, future: *mut u32, out: *mut Out) -> bool,
    /// Slots; words: drafted tokens, then as many positions.
    pub output_get:
        extern "C" fn(guest: GuestPtr, future: u32, ready: *mut bool, out: *mut Out) -> bool,
    pub grammar_from_json_schema:
        extern "C" fn(guest: GuestPtr, schema: Str, grammar: *mut u32, out: *mut Out) -> bool,
    pub grammar_json: extern "C" fn(guest: GuestPtr, grammar: *mut u32, out: *mut Out) -> bool,
    pub grammar_from_regex:
        extern "C" fn(guest: GuestPtr, pattern: Str, grammar: *mut u32, out: *mut Out) -> bool,
    pub grammar_from_ebnf:
        extern "C" fn(guest: GuestPtr, source: Str, grammar: *mut u32, out: *mut Out) -> bool,
    pub grammar_to_string: extern "C" fn(guest: GuestPtr, grammar: u32, out: *mut Out) -> bool,
    pub matcher_new: extern "C" fn(
        guest: GuestPtr,
        grammar: u32,
        tokenizer: u32,
        matcher: *mut u32,
        out: *mut Out,
    ) -> bool,
    pub matcher_accept_tokens:
        extern "C" fn(guest: GuestPtr, matcher: u32, tokens: Words, out: *mut Out) -> bool,
    pub matcher_next_token_logit_mask:
        extern "C" fn(guest: GuestPtr, matcher: u32, out: *mut Out) -> bool,
    pub matcher_is_terminated:
        extern "C" fn(guest: GuestPtr, matcher: u32, value: *mut bool, out: *mut Out) -> bool,
    pub matcher_reset: extern "C" fn(guest: GuestPtr, matcher: u32, out: *mut Out) -> bool,
    // pie:plus
    pub pass_seed: extern "C" fn(guest: GuestPtr, pass: u32, seed: u64, out: *mut Out) -> bool,
    /// Text: why the pass gave nothing, if `failed`.
    pub output_failure:
        extern "C" fn(guest: GuestPtr, future: u32, failed: *mut bool, out: *mut Out) -> bool,
    /// A null seed: the engine's own.
    pub step_begin: extern "C" fn(
        guest: GuestPtr,
        context: u32,
        tokens: Words,
        logit_mask: Words,
        seed: *const u64,
        sampler: *const Sampler,
        future: *mut u32,
        out: *mut Out,
    ) -> bool,
    /// Takes the result and lets go of the future, unless `signal` says what to wait for. `token` is its only slot if
    /// `is_token`; else slots.
    pub step_finish: extern "C" fn(
        guest: GuestPtr,
        future: u32,
        signal: *mut *const Signal,
        is_token: *mut bool,
        token: *mut u32,
        out: *mut Out,
    ) -> bool,
    pub chain_run: extern "C" fn(
        guest: GuestPtr,
        pass: u32,
        max_tokens: u32,
        stops: Words,
        chain: *mut u32,
        out: *mut Out,
    ) -> bool,
    /// Words: the tokens since the last call.
    pub chain_take:
        extern "C" fn(guest: GuestPtr, chain: u32, state: *mut ChainState, out: *mut Out) -> bool,
    // pie:core/adapter and pie:zo
    pub adapter_create: extern "C" fn(
        guest: GuestPtr,
        model: u32,
        name: Str,
        adapter: *mut u32,
        out: *mut Out,
    ) -> bool,
    pub adapter_open: extern "C" fn(
        guest: GuestPtr,
        model: u32,
        name: Str,
        adapter: *mut u32,
        found: *mut bool,
        out: *mut Out,
    ) -> bool,
    pub adapter_destroy: extern "C" fn(guest: GuestPtr, adapter: u32, out: *mut Out) -> bool,
    pub adapter_fork: extern "C" fn(
        guest: GuestPtr,
        adapter: u32,
        name: Str,
        copy: *mut u32,
        out: *mut Out,
    ) -> bool,
    pub adapter_load:
        extern "C" fn(guest: GuestPtr, adapter: u32, path: Str, out: *mut Out) -> bool,
    pub adapter_save:
        extern "C" fn(guest: GuestPtr, adapter: u32, path: Str, out: *mut Out) -> bool,
    pub zo_adapter_seed:
        extern "C" fn(guest: GuestPtr, pass: u32, seed: i64, out: *mut Out) -> bool,
    pub zo_initialize: extern "C" fn(
        guest: GuestPtr,
        adapter: u32,
        rank: u32,
        alpha: f32,
        population_size: u32,
        mu_fraction: f32,
        initial_sigma: f32,
        out: *mut Out,
    ) -> bool,
    /// `scores` and `seeds` have `count` items each.
    pub zo_update: extern "C" fn(
        guest: GuestPtr,
        adapter: u32,
        scores: *const f32,
        seeds: *const i64,
        count: usize,
        max_sigma: f32,
        out: *mut Out,
    ) -> bool,
    // pie:core/scheduling
    pub scheduling_price: extern "C" fn(guest: GuestPtr, value: *mut f64, out: *mut Out) -> bool,
    pub scheduling_rent:
        extern "C" fn(guest: GuestPtr, context: u32, value: *mut f64, out: *mut Out) -> bool,
    pub scheduling_dividend:
        extern "C" fn(guest: GuestPtr, model: u32, value: *mut f64, out: *mut Out) -> bool,
    pub scheduling_latency:
        extern "C" fn(guest: GuestPtr, context: u32, value: *mut f64, out: *mut Out) -> bool,
    pub scheduling_balance:
        extern "C" fn(guest: GuestPtr, model: u32, value: *mut f64, out: *mut Out) -> bool,
    // pie:core/messaging
    pub messaging_push:
        extern "C" fn(guest: GuestPtr, topic: Str, message: Str, out: *mut Out) -> bool,
    pub messaging_pull:
        extern "C" fn(guest: GuestPtr, topic: Str, future: *mut u32, out: *mut Out) -> bool,
    pub messaging_broadcast:
        extern "C" fn(guest: GuestPtr, topic: Str, message: Str, out: *mut Out) -> bool,
    pub messaging_subscribe:
        extern "C" fn(guest: GuestPtr, topic: Str, subscription: *mut u32, out: *mut Out) -> bool,
    pub subscription_get:
        extern "C" fn(guest: GuestPtr, subscription: u32, ready: *mut bool, out: *mut Out) -> bool,
    pub subscription_unsubscribe:
        extern "C" fn(guest: GuestPtr, subscription: u32, out: *mut Out) -> bool,
    // pie:core/session
    /// What to wait for before more is said to a client that is slow; null when there is room.
    pub session_room: extern "C" fn(guest: GuestPtr) -> *const Signal,
    pub session_send: extern "C" fn(guest: GuestPtr, message: Str, out: *mut Out) -> bool,
    pub session_receive: extern "C" fn(guest: GuestPtr, future: *mut u32, out: *mut Out) -> bool,
    pub session_send_file: extern "C" fn(guest: GuestPtr, data: Str, out: *mut Out) -> bool,
    pub session_receive_file:
        extern "C" fn(guest: GuestPtr, future: *mut u32, out: *mut Out) -> bool,
    // pie:instruct
    /// Words.
    pub chat_system: extern "C" fn(guest: GuestPtr, model: u32, text: Str, out: *mut Out) -> bool,
    pub chat_user: extern "C" fn(guest: GuestPtr, model: u32, text: Str, out: *mut Out) -> bool,
    pub chat_assistant:
        extern "C" fn(guest: GuestPtr, model: u32, text: Str, out: *mut Out) -> bool,
    pub chat_cue: extern "C" fn(guest: GuestPtr, model: u32, out: *mut Out) -> bool,
    pub chat_seal: extern "C" fn(guest: GuestPtr, model: u32, out: *mut Out) -> bool,
    pub chat_stop_tokens: extern "C" fn(guest: GuestPtr, model: u32, out: *mut Out) -> bool,
    /// One of the three decoders, by kind.
    pub decoder_new: extern "C" fn(
        guest: GuestPtr,
        kind: HandleKind,
        model: u32,
        decoder: *mut u32,
        out: *mut Out,
    ) -> bool,
    pub decoder_feed: extern "C" fn(
        guest: GuestPtr,
        kind: HandleKind,
        decoder: u32,
        tokens: Words,
        event: *mut Event,
        out: *mut Out,
    ) -> bool,
    pub decoder_reset:
        extern "C" fn(guest: GuestPtr, kind: HandleKind, decoder: u32, out: *mut Out) -> bool,
    /// Of a tool decoder.
    pub decoder_assembling:
        extern "C" fn(guest: GuestPtr, decoder: u32, value: *mut bool, out: *mut Out) -> bool,
    /// Words.
    pub chat_extend: extern "C" fn(
        guest: GuestPtr,
        model: u32,
        before: *const TurnKind,
        before_count: usize,
        turns: *const TemplateTurn,
        turns_count: usize,
        out: *mut Out,
    ) -> bool,
    /// Words.
    pub tools_equip: extern "C" fn(
        guest: GuestPtr,
        model: u32,
        tools: *const Str,
        count: usize,
        out: *mut Out,
    ) -> bool,
    /// Words.
    pub tools_answer:
        extern "C" fn(guest: GuestPtr, model: u32, name: Str, value: Str, out: *mut Out) -> bool,
    pub tools_format: extern "C" fn(
        guest: GuestPtr,
        model: u32,
        tools: *const Str,
        count: usize,
        grammar: *mut u32,
        found: *mut bool,
        out: *mut Out,
    ) -> bool,
    pub tools_matcher: extern "C" fn(
        guest: GuestPtr,
        model: u32,
        tools: *const Str,
        count: usize,
        matcher: *mut u32,
        out: *mut Out,
    ) -> bool,
    // pie:mcp/client
    /// Blobs: the names.
    pub mcp_available_servers: extern "C" fn(guest: GuestPtr, out: *mut Out) -> bool,
    pub mcp_connect: extern "C" fn(
        guest: GuestPtr,
        name: Str,
        session: *mut u32,
        code: *mut McpCode,
        out: *mut Out,
    ) -> bool,
    /// One JSON-RPC call: `tools/list`, `tools/call`, … with its arguments.
    pub mcp_call: extern "C" fn(
        guest: GuestPtr,
        session: u32,
        method: Str,
        name: Str,
        args: Str,
        code: *mut McpCode,
        out: *mut Out,
    ) -> bool,
}
