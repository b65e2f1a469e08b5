use pie_client::Client;
use std::io::Write;

#[tokio::main]
async fn main() -> pie_client::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or("ws://127.0.0.1:8080".into());
    let client = Client::connect(&uri).await?;
    client.authenticate("ada", None).await?;
    let input = r#"{"prompt": "Hello", "temperature": 0}"#;
    let process = client.launch_process("text-completion", input).await?;
    while let Some(text) = process.next_text().await? {
        print!("{text}");
        let _ = std::io::stdout().flush();
    }
    Ok(())
}
