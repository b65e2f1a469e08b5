//! Does nothing, so that the benchmark measures only its launch.

#[inferlet::main]
async fn main(_input: String) -> inferlet::Result<String> {
    Ok(String::new())
}
