//! Asks MCP servers what its input says. The programs beside it do the same in other languages.
//!
//! Each call is a list: what to do, the server, and the arguments. The answer to each is the
//! server's JSON, or `error: …`.

use inferlet::mcp;
use inferlet::prelude::*;
use serde_json::Value;

fn ask(call: &Value) -> Result<String> {
    let word = |i: usize| call[i].as_str().unwrap_or_default();
    if word(0) == "servers" {
        return Ok(mcp::available_servers().join(" "));
    }
    let server = mcp::connect(word(1))?;
    let answer = match word(0) {
        "tools" => server.list_tools(),
        "call" => server.call_tool(word(2), word(3)),
        "resources" => server.list_resources(),
        "read" => server.read_resource(word(2)),
        "prompts" => server.list_prompts(),
        _ => server.get_prompt(word(2), word(3)),
    };
    Ok(answer?)
}

#[inferlet::main]
async fn main(input: Value) -> Result<Vec<String>> {
    let calls = input["calls"].as_array().cloned().unwrap_or_default();
    let answer = |call| ask(call).unwrap_or_else(|error| format!("error: {error}"));
    Ok(calls.iter().map(answer).collect())
}
