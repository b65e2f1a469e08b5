//! Does with an adapter what its input says. Each step answers with a text: what it gave, or its error.

use inferlet::prelude::*;
use inferlet::{session, zo, FutureBlobExt};
use serde::Deserialize;

#[derive(Deserialize)]
struct Input {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Step {
    Create { name: String },
    Open { name: String },
    Fork { name: String },
    Destroy,
    Load { path: String },
    Save { path: String },
    /// Sends the two files to the client.
    Export,
    /// Receives the two files from the client.
    Import,
    Copy { from: String, to: String },
    Initialize { rank: u32, alpha: f32, population: u32, mu: f32, sigma: f32 },
    Update { scores: Vec<f32>, seeds: Vec<i64>, max_sigma: f32 },
    Generate { plain: Option<bool>, seed: Option<i64> },
}

#[inferlet::main]
async fn main(input: Input) -> Result<Vec<String>> {
    let model = Model::load(&runtime::models()[0])?;
    let mut adapter = None;
    let mut answers = Vec::new();
    for step in input.steps {
        let answer = act(&model, &mut adapter, step).await;
        answers.push(answer.unwrap_or_else(|error| format!("error: {error}")));
    }
    Ok(answers)
}

async fn act(model: &Model, current: &mut Option<Adapter>, step: Step) -> Result<String> {
    let adapter = || current.as_ref().ok_or_else(|| "there is no adapter".to_string());
    match step {
        Step::Create { name } => *current = Some(Adapter::create(model, &name)?),
        Step::Open { name } => {
            *current = Adapter::open(model, &name);
            return Ok(if current.is_some() { "found".into() } else { "none".into() });
        }
        Step::Fork { name } => *current = Some(adapter()?.fork(&name)),
        Step::Destroy => adapter()?.destroy(),
        Step::Load { path } => adapter()?.load(&path)?,
        Step::Save { path } => adapter()?.save(&path)?,
        Step::Export => {
            let files = adapter()?.export()?;
            session::try_send_file(files.config.as_bytes())?;
            session::try_send_file(&files.tensors)?;
        }
        Step::Import => {
            let config = session::receive_file().wait_async().await.ok_or("no client")?;
            let tensors = session::receive_file().wait_async().await.ok_or("no client")?;
            let config = String::from_utf8(config).map_err(|error| error.to_string())?;
            adapter()?.import(&config, &tensors)?;
        }
        Step::Copy { from, to } => {
            let copied = std::fs::create_dir_all(&to).and_then(|_| {
                for file in ["adapter_config.json", "adapter_model.safetensors"] {
                    std::fs::copy(format!("{from}/{file}"), format!("{to}/{file}"))?;
                }
                Ok(())
            });
            copied.map_err(|error| error.to_string())?;
        }
        Step::Initialize { rank, alpha, population, mu, sigma } => {
            let search = zo::Search {
                rank,
                alpha,
                population_size: population,
                mu_fraction: mu,
                initial_sigma: sigma,
            };
            zo::initialize(adapter()?, search)?;
        }
        Step::Update { scores, seeds, max_sigma } => {
            zo::update(adapter()?, &scores, &seeds, max_sigma)?;
        }
        Step::Generate { plain, seed } => {
            let mut ctx = Context::new(model)?;
            let mut generator = ctx
                .user("hello")
                .cue()
                .generate(Sampler::Argmax)
                .max_tokens(12);
            if plain != Some(true) {
                generator = generator.adapter(adapter()?);
            }
            if let Some(seed) = seed {
                generator = generator.zo_seed(seed);
            }
            return Ok(format!("{:?}", generator.collect_tokens().await?));
        }
    }
    Ok("done".into())
}
