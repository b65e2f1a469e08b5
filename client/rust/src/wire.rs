//! The messages of the protocol.

use serde::{Deserialize, Serialize};

/// A message to the server, without its `corr_id`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request<'a> {
    AuthIdentify {
        username: &'a str,
    },
    AuthProve {
        signature: &'a str,
    },
    AuthByToken {
        token: &'a str,
    },
    CheckProgram {
        name: &'a str,
        version: &'a str,
        wasm_hash: Option<String>,
        manifest_hash: Option<String>,
    },
    Query {
        subject: &'a str,
        record: &'a str,
    },
    AddProgram {
        program_hash: &'a str,
        manifest: &'a str,
        force_overwrite: bool,
        #[serde(flatten)]
        chunk: Chunk<'a>,
    },
    LaunchProcess {
        inferlet: &'a str,
        input: &'a str,
        capture_outputs: bool,
        token_budget: Option<u64>,
        seen: u64,
    },
    LaunchDaemon {
        port: u16,
        inferlet: &'a str,
        input: &'a str,
    },
    AttachProcess {
        process_id: &'a str,
        seen: Option<u64>,
    },
    TerminateProcess {
        process_id: &'a str,
    },
    SignalProcess {
        process_id: &'a str,
        message: &'a str,
    },
    TransferFile {
        process_id: &'a str,
        file_hash: &'a str,
        #[serde(flatten)]
        chunk: Chunk<'a>,
    },
    ListProcesses,
    Ping,
    RegisterMcpServer {
        name: &'a str,
        transport: &'a str,
        command: Option<&'a str>,
        args: Option<&'a [String]>,
        url: Option<&'a str>,
    },
    McpResponse {
        ok: bool,
        result: &'a str,
    },
    RestartDaemon {
        process_id: &'a str,
    },
}

#[derive(Serialize, Clone, Copy)]
pub struct Chunk<'a> {
    pub chunk_index: u32,
    pub total_chunks: u32,
    #[serde(with = "serde_bytes")]
    pub chunk_data: &'a [u8],
}

#[derive(Serialize)]
pub struct Numbered<'a> {
    pub corr_id: u32,
    #[serde(flatten)]
    pub request: Request<'a>,
}

/// A message to the client. It has the fields of all types; unknown fields are ignored.
#[derive(Deserialize)]
pub struct Frame {
    #[serde(rename = "type")]
    pub kind: String,
    pub corr_id: Option<u32>,
    pub ok: Option<bool>,
    pub result: Option<String>,
    pub process_id: Option<String>,
    pub event: Option<String>,
    pub value: Option<String>,
    pub seq: Option<u64>,
    pub file_hash: Option<String>,
    pub chunk_index: Option<u32>,
    pub total_chunks: Option<u32>,
    pub chunk_data: Option<serde_bytes::ByteBuf>,
    pub server_name: Option<String>,
    pub method: Option<String>,
    pub params: Option<String>,
}

/// A running process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// The id that `Client::attach_process` takes.
    pub process_id: String,
    /// The name and version of its program.
    pub inferlet: String,
    /// The user who launched it.
    pub username: String,
    /// Whether a client is attached to it.
    pub attached: bool,
    /// The port on which a daemon answers; processes that are no daemons have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}
