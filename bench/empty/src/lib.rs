//! Does nothing, so that launching it is all there is to measure.

#[inferlet::main]
async fn main(_input: String) -> inferlet::Result<String> {
    Ok(String::new())
}
