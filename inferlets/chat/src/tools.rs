//! The tools of MCP servers, as the model sees them.

use inferlet::mcp;
use inferlet::prelude::*;
use serde_json::{json, Value};

const MAX_TOOLS: usize = 128;

#[derive(Default)]
pub struct Toolbox(Vec<(mcp::client::Session, Value)>);

impl Toolbox {
    /// The tools of these servers.
    pub fn of(servers: &[&str]) -> Result<Toolbox> {
        let mut all = Toolbox::default();
        for server in servers {
            for tool in tools_of(server)? {
                if all.0.len() == MAX_TOOLS {
                    return Err(format!("these servers have more than {MAX_TOOLS} tools"));
                }
                all.0.push((mcp::connect(server)?, tool));
            }
        }
        Ok(all)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn names(&self) -> Vec<String> {
        let name = |(_, tool): &(_, Value)| tool["name"].as_str().unwrap_or_default().to_string();
        self.0.iter().map(name).collect()
    }

    /// The tools in the form that models know.
    pub fn schemas(&self) -> Vec<String> {
        let schema = |(_, tool): &(_, Value)| {
            let function = json!({
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["inputSchema"],
            });
            json!({ "type": "function", "function": function }).to_string()
        };
        self.0.iter().map(schema).collect()
    }

    /// Returns the text of the result, or of the error, which the model may react to.
    pub fn call(&self, name: &str, arguments: &str) -> String {
        let found = self.0.iter().find(|(_, tool)| tool["name"] == name);
        let Some((server, _)) = found else {
            return format!("error: there is no tool {name}");
        };
        match server.call_tool(name, arguments) {
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
