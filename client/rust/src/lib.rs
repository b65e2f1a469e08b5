//! A client of Pie. It installs inferlets on a server, launches them and streams their output.
//!
//! ```no_run
//! # async fn hello() -> pie_client::Result<()> {
//! let client = pie_client::Client::connect("ws://127.0.0.1:8080").await?;
//! client.authenticate("ada", None).await?;
//! let process = client.launch_process("text-completion", r#"{"prompt": "Hello"}"#).await?;
//! while let Some(text) = process.next_text().await? {
//!     print!("{text}");
//! }
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod client;
mod connection;
mod der;
mod error;
mod event;
mod flow;
mod key;
mod limits;
mod mailbox;
mod mcp;
mod openssh;
mod process;
mod tls;
mod wire;

pub use client::{Client, Options};
pub use error::{Error, Result};
pub use event::ProcessEvent;
pub use key::ParsedPrivateKey;
pub use process::Process;
pub use wire::ProcessInfo;
