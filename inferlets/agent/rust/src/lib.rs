//! Works on a task with the tools of an MCP server. A grammar makes every call well-formed.

use inferlet::prelude::*;
use inferlet::{mcp, tools, GrammarConstraint};
use serde::Deserialize;
use serde_json::{json, Value};

#[derive(Deserialize)]
struct Input {
    server: String,
    task: String,
    max_calls: Option<usize>,
    #[serde(default)]
    temperature: f32,
    #[serde(default)]
    seed: u64,
}

/// A tool in the form that models know.
fn schema(name: &Value, description: &Value, parameters: &Value) -> String {
    let function = json!({ "name": name, "description": description, "parameters": parameters });
    json!({ "type": "function", "function": function }).to_string()
}

fn finish() -> String {
    let parameters = json!({
        "type": "object",
        "properties": { "answer": { "type": "string", "maxLength": 200 } },
        "required": ["answer"],
        "additionalProperties": false,
    });
    let description = json!("Ends the work with an answer.");
    schema(&json!("finish"), &description, &parameters)
}

fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn text(result: &str) -> Result<String> {
    let result = parse(result)?;
    let parts = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    Ok(texts.join("\n"))
}

/// Generates a call of one of these tools. Returns its name and its arguments as JSON.
async fn call(ctx: &mut Context, schemas: &[String], input: &Input) -> Result<(String, String)> {
    let model = ctx.model().clone();
    let matcher =
        tools::native_matcher(&model, schemas).ok_or("this model has no grammar of tool calls")?;
    let generator = ctx
        .generate(Sampler::top_p(input.temperature, 0.95))
        .seed(input.seed)
        .constrain(GrammarConstraint::new(matcher))
        .max_tokens(1000);
    match tools::Decoder::new(&model).feed(&generator.collect_tokens().await?)? {
        tools::Event::Call(name, arguments) => Ok((name, arguments)),
        _ => Err("the call was longer than 1000 tokens".into()),
    }
}

#[inferlet::main]
async fn main(input: Input) -> Result<Value> {
    let server = mcp::connect(&input.server)?;
    let list = parse(&server.list_tools()?)?;
    let tools = list["tools"].as_array().into_iter().flatten();
    let mut schemas: Vec<String> = tools
        .map(|tool| schema(&tool["name"], &tool["description"], &tool["inputSchema"]))
        .collect();
    schemas.push(finish());

    let mut ctx = Context::new(&Model::load(&runtime::models()[0])?)?;
    ctx.equip_tools(&schemas)?
        .system("Work on the task with your tools, then finish.")
        .user(&input.task);
    let mut calls = Vec::new();
    loop {
        let first = match calls.len() == input.max_calls.unwrap_or(8) {
            true => schemas.len() - 1, // only `finish` is left
            false => 0,
        };
        ctx.cue();
        let (name, arguments) = call(&mut ctx, &schemas[first..], &input).await?;
        ctx.seal();
        let given = parse(&arguments)?;
        if name == "finish" {
            return Ok(json!({ "calls": calls, "answer": given["answer"] }));
        }
        let result = text(&server.call_tool(&name, &arguments)?)?;
        ctx.answer_tool(&name, &result);
        calls.push(json!({ "name": name, "arguments": given, "result": result }));
    }
}
