//! The smallest inferlet: a parameter in, a text out.

use inferlet::Result;
use serde::Deserialize;

#[derive(Deserialize)]
struct Input {
    #[serde(default = "world")]
    name: String,
}

fn world() -> String {
    "world".into()
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    Ok(format!("Hello, {}!", input.name))
}
