//! The tools of MCP servers, as the model sees them.

use inferlet::mcp;
use inferlet::prelude::*;
use inferlet::ChildExt;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

const MAX_TOOLS: usize = 1024;

/// The name of this program, which launches itself.
const SELF: &str = concat!(env!("CARGO_PKG_NAME"), "@", env!("CARGO_PKG_VERSION"));

/// A tool of a server, under the name by which the model knows it.
struct Tool {
    name: String,
    server: String,
    about: Value,
}

#[derive(Default)]
pub struct Toolbox(Vec<Tool>);

impl Toolbox {
    /// The tools of these servers.
    pub fn of(servers: &[&str]) -> Result<Toolbox> {
        let mut all = Toolbox::default();
        for server in servers {
            for tool in tools_of(server)? {
                // A list may hold anything. What has no name cannot be called.
                let Some(name) = tool["name"].as_str().filter(|name| !name.is_empty()) else {
                    continue;
                };
                if all.0.len() == MAX_TOOLS {
                    return Err(format!("these servers have more than {MAX_TOOLS} tools"));
                }
                all.0.push(Tool {
                    name: name.into(),
                    server: server.to_string(),
                    about: tool.clone(),
                });
            }
        }
        all.tell_apart();
        Ok(all)
    }

    /// Puts the server before a tool's name, if tools of several servers have the same name.
    fn tell_apart(&mut self) {
        let names = self.names();
        let shared = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
        for tool in self.0.iter_mut().filter(|tool| shared(&tool.name)) {
            tool.name = format!("{}_{}", tool.server, tool.name);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|tool| tool.name.clone()).collect()
    }

    /// The tools in the form that models know.
    pub fn schemas(&self) -> Vec<String> {
        let schema = |tool: &Tool| {
            let function = json!({
                "name": tool.name,
                "description": tool.about["description"],
                "parameters": tool.about["inputSchema"],
            });
            json!({ "type": "function", "function": function }).to_string()
        };
        self.0.iter().map(schema).collect()
    }

    /// Returns the text of the result, or of the error, which the model may react to. Dropping the future cancels the
    /// call.
    pub async fn call(&self, name: &str, arguments: &str) -> String {
        let Some(tool) = self.0.iter().find(|tool| tool.name == name) else {
            return format!("error: there is no tool {name}");
        };
        let call = Call {
            server: tool.server.clone(),
            tool: tool.about["name"].as_str().unwrap_or_default().into(),
            arguments: arguments.into(),
        };
        // An inferlet waits for a server without reading its messages. So another one waits, and can be cancelled.
        let Ok(child) = runtime::launch(SELF, &json!({ "call": call }).to_string()) else {
            return call.make();
        };
        let beside = Beside(child);
        let result = beside.0.wait_async().await;
        result.unwrap_or_else(|error| format!("error: {error}"))
    }
}

/// A child that is terminated when no caller waits for it any more.
struct Beside(runtime::Child);

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A call of a server's tool.
#[derive(Serialize, Deserialize)]
pub struct Call {
    server: String,
    tool: String,
    arguments: String,
}

impl Call {
    /// Makes the call and waits for its end.
    pub fn make(&self) -> String {
        let call = || mcp::connect(&self.server)?.call_tool(&self.tool, &self.arguments);
        match call() {
            Ok(result) => text_of(&result),
            Err(error) => format!("error: {error}"),
        }
    }
}

fn text_of(result: &str) -> String {
    let parsed: Value = serde_json::from_str(result).unwrap_or_default();
    let texts = parsed["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = texts.filter_map(|part| part["text"].as_str()).collect();
    match texts.is_empty() {
        true => result.to_string(),
        false => texts.join("\n"),
    }
}

fn tools_of(server: &str) -> Result<Vec<Value>> {
    let list = mcp::connect(server)?.list_tools()?;
    let list: Value = serde_json::from_str(&list).map_err(|error| error.to_string())?;
    Ok(list["tools"].as_array().cloned().unwrap_or_default())
}

/// The servers and their tools, a line each.
pub fn list() -> String {
    let servers = mcp::available_servers();
    if servers.is_empty() {
        return "there are no MCP servers: name them in the config, as [mcp.<name>]".into();
    }
    let line = |server: &String| match tools_of(server) {
        Ok(tools) => {
            let names: Vec<&str> = tools
                .iter()
                .filter_map(|tool| tool["name"].as_str())
                .collect();
            format!("{server}: {}", names.join(", "))
        }
        Err(error) => format!("{server}: {error}"),
    };
    servers.iter().map(line).collect::<Vec<_>>().join("\n")
}
