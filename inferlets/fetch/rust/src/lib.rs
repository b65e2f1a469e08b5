//! Fetches a page by HTTP.

use inferlet::http;
use inferlet::prelude::*;

#[derive(serde::Deserialize)]
struct Input {
    url: String,
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    let response = http::get(&input.url).header("accept", "text/plain").send().await?;
    let status = response.status();
    let text = response.text().await?;
    Ok(format!("{status}: {text}"))
}
