//! Answers every HTTP request with the same text. It uses nothing of the engine, so that other hosts of WebAssembly run it as
//! well.

use inferlet::http::{Request, Responder};
use inferlet::prelude::*;

#[inferlet::http_handler]
async fn serve(_request: Request, respond: Responder) -> Result<()> {
    respond
        .header("content-type", "text/plain")
        .send("hello")
        .await
}
