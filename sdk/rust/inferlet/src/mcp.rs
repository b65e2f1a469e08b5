//! Model Context Protocol servers that the client or the engine registered.

pub mod client {
    use crate::pie::mcp::client as raw;
    use crate::Result;

    /// Names of the servers that can be connected to.
    pub fn available_servers() -> Vec<String> {
        raw::available_servers()
    }

    /// Opens a session; it closes when dropped.
    pub fn connect(name: &str) -> Result<Session> {
        raw::connect(name).map(Session).map_err(text)
    }

    /// A session with one server. Every answer is a JSON text.
    pub struct Session(raw::Session);

    impl Session {
        pub fn list_tools(&self) -> Result<String> {
            self.0.list_tools().map_err(text)
        }

        pub fn call_tool(&self, name: &str, args_json: &str) -> Result<String> {
            self.0.call_tool(name, args_json).map_err(text)
        }

        pub fn list_resources(&self) -> Result<String> {
            self.0.list_resources().map_err(text)
        }

        pub fn read_resource(&self, uri: &str) -> Result<String> {
            self.0.read_resource(uri).map_err(text)
        }

        pub fn list_prompts(&self) -> Result<String> {
            self.0.list_prompts().map_err(text)
        }

        pub fn get_prompt(&self, name: &str, args_json: &str) -> Result<String> {
            self.0.get_prompt(name, args_json).map_err(text)
        }
    }

    fn text(error: crate::pie::mcp::types::Error) -> String {
        match error.data {
            Some(data) => format!("{} (code {}): {data}", error.message, error.code),
            None => format!("{} (code {})", error.message, error.code),
        }
    }
}

pub use client::{available_servers, connect, Session};
