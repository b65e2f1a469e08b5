//! Model Context Protocol servers: those that the inferlet's client has registered, and those of the engine's
//! configuration.

use std::fmt;

/// A JSON-RPC error of a server, or the reason why there is no answer. `?` makes a `String` of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpError {
    /// The code of JSON-RPC.
    pub code: i32,
    /// The server's message, or the reason why there is no answer.
    pub message: String,
    /// The data of the server's error as JSON, if there is any.
    pub data: Option<String>,
}

impl fmt::Display for McpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)?;
        self.data.as_ref().map_or(Ok(()), |data| write!(f, ": {data}"))
    }
}

impl std::error::Error for McpError {}

impl From<McpError> for String {
    fn from(error: McpError) -> String {
        error.to_string()
    }
}

impl From<crate::pie::mcp::types::Error> for McpError {
    fn from(error: crate::pie::mcp::types::Error) -> McpError {
        McpError { code: error.code, message: error.message, data: error.data }
    }
}

/// Sessions with servers.
pub mod client {
    use super::McpError;
    use crate::pie::mcp::client as raw;

    type Result<T> = std::result::Result<T, McpError>;

    /// Names of the servers that can be connected to.
    pub fn available_servers() -> Vec<String> {
        raw::available_servers()
    }

    /// Opens a session; it closes when dropped.
    pub fn connect(name: &str) -> Result<Session> {
        Ok(Session(raw::connect(name)?))
    }

    /// A session with one server. Every answer is a JSON text.
    pub struct Session(raw::Session);

    impl std::fmt::Debug for Session {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Session").finish_non_exhaustive()
        }
    }

    impl Session {
        /// The tools that the server offers.
        pub fn list_tools(&self) -> Result<String> {
            Ok(self.0.list_tools()?)
        }

        /// Calls a tool.
        pub fn call_tool(&self, name: &str, args_json: &str) -> Result<String> {
            Ok(self.0.call_tool(name, args_json)?)
        }

        /// The resources that the server offers.
        pub fn list_resources(&self) -> Result<String> {
            Ok(self.0.list_resources()?)
        }

        /// Reads a resource.
        pub fn read_resource(&self, uri: &str) -> Result<String> {
            Ok(self.0.read_resource(uri)?)
        }

        /// The prompt templates that the server offers.
        pub fn list_prompts(&self) -> Result<String> {
            Ok(self.0.list_prompts()?)
        }

        /// Renders a prompt template.
        pub fn get_prompt(&self, name: &str, args_json: &str) -> Result<String> {
            Ok(self.0.get_prompt(name, args_json)?)
        }
    }
}

pub use client::{available_servers, connect, Session};
