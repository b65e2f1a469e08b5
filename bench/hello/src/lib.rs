//! Answers every HTTP request with the same text. It uses nothing of the engine, so that other hosts of WebAssembly run it as
//! well.

use wstd::http::body::IncomingBody;
use wstd::http::server::{Finished, Responder};
use wstd::http::{IntoBody, Request, Response};

#[wstd::http_server]
async fn main(_request: Request<IncomingBody>, responder: Responder) -> Finished {
    responder.respond(Response::new("hello".into_body())).await
}
