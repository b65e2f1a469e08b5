//! Answers a question by thinking and calling tools in turns (ReAct). No call can be malformed: the grammar of the
//! model's own call format holds it, with the arguments' schemas.

use inferlet::prelude::*;
use inferlet::schemars::{self, JsonSchema};
use inferlet::serde_json::{json, Value};
use inferlet::{GrammarConstraint, Regex};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    question: String,
    #[serde(default)]
    temperature: f32,
    #[serde(default)]
    seed: u64,
    max_steps: Option<u64>,
}

#[derive(Serialize)]
struct Output {
    answer: String,
    steps: Vec<Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Pie {
    Apple,
    Cherry,
    Plum,
}

/// Tells the price of a pie.
#[inferlet::tool]
fn price(pie: Pie) -> u32 {
    match pie {
        Pie::Apple => 4,
        Pie::Cherry => 6,
        Pie::Plum => 5,
    }
}

/// Multiplies two numbers.
#[inferlet::tool]
fn multiply(a: u16, b: u16) -> u32 {
    u32::from(a) * u32::from(b)
}

/// Answers the question.
#[inferlet::tool]
fn finish(#[schemars(length(max = 60))] answer: String) -> String {
    answer
}

#[inferlet::main]
async fn main(input: Input) -> Result<Output> {
    let model = Model::load(&runtime::models()[0])?;
    let schemas = [price.schema(), multiply.schema(), finish.schema()];
    let max_steps = input.max_steps.unwrap_or(8);
    let mut steps = Vec::new();
    let mut ctx = Context::new(&model)?;
    ctx.system("Think in one line, then call a tool. Call finish with the answer.")
        .equip_tools(&schemas)?
        .user(&input.question);
    for number in 0..max_steps {
        let sampler = Sampler::top_p(input.temperature, 0.95);
        let seed = input.seed + 1000 * number;
        let thinking = ctx.cue().generate(sampler).seed(seed).max_tokens(200);
        let thought = thinking
            .constrain_with(Regex(r"Thought: [^\n<]{1,160}\n"))?
            .collect_text()
            .await?;
        let Some(matcher) = tools::native_matcher(&model, &schemas) else {
            return Err("the tool calls of this model cannot be held by a grammar".into());
        };
        let calling = ctx.generate(sampler).seed(seed).max_tokens(400);
        let call = calling
            .constrain(GrammarConstraint::new(matcher))
            .collect_tokens()
            .await?;
        let tools::Event::Call(name, arguments) = tools::Decoder::new(&model).feed(&call)? else {
            return Err("the call is not complete after 400 tokens".into());
        };
        let result = match name.as_str() {
            "price" => price::call(&arguments).await?,
            "multiply" => multiply::call(&arguments).await?,
            _ => finish::call(&arguments).await?,
        };
        let thought = thought.trim_start_matches("Thought: ").trim();
        let parsed: Value =
            inferlet::serde_json::from_str(&arguments).map_err(|e| e.to_string())?;
        steps.push(
            json!({ "thought": thought, "tool": name, "arguments": parsed, "result": result }),
        );
        if name == "finish" {
            return Ok(Output {
                answer: result,
                steps,
            });
        }
        ctx.seal().answer_tool(&name, &result);
    }
    Err(format!(
        "there is no answer after {max_steps} steps: {}",
        json!(steps)
    ))
}
