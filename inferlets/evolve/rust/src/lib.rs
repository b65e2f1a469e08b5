//! A program that teaches its model. It tunes an adapter by evolution strategies until answers begin as it wants.
//!
//! A candidate is the adapter with the noise of a seed. Its score is the mean log-probability of the wanted beginning
//! after some prompts. The prompts are computed once, by the plain model; every candidate continues forks of them under
//! the adapter, so all candidates of a generation run in shared batches.

mod plot;

use futures::future::try_join_all;
use inferlet::prelude::*;
use inferlet::sample::Logprobs;
use inferlet::{session, zo};
use serde::{Deserialize, Serialize};

const PROMPTS: [&str; 4] = [
    "Who are you?",
    "What is the capital of France?",
    "How do I cook rice?",
    "Tell me something about the sea.",
];

#[derive(Deserialize)]
#[serde(default)]
struct Input {
    adapter: String,
    beginning: String,
    generations: usize,
    pairs: usize,
    rank: u32,
    sigma: f32,
    seed: i64,
}

impl Default for Input {
    fn default() -> Self {
        Self {
            adapter: "ahoy".into(),
            beginning: "Ahoy".into(),
            generations: 20,
            pairs: 16,
            rank: 8,
            sigma: 0.1,
            seed: 1,
        }
    }
}

#[derive(Serialize)]
struct Learned {
    /// The score of the adapter itself, before the first generation and after each.
    rewards: Vec<f32>,
    candidates: usize,
}

#[inferlet::main]
async fn main(input: Input) -> Result<Learned> {
    let model = Model::load(&runtime::models()[0])?;
    if let Some(old) = Adapter::open(&model, &input.adapter) {
        old.destroy();
    }
    let adapter = Adapter::create(&model, &input.adapter)?;
    let population = 2 * input.pairs;
    zo::initialize(
        &adapter,
        zo::Search {
            rank: input.rank,
            alpha: input.rank as f32,
            population_size: population as u32,
            mu_fraction: 0.5,
            initial_sigma: input.sigma,
        },
    )?;

    let task = Task::new(&model, &input.beginning).await?;
    let mut rewards = vec![task.score(&adapter, 0).await?];
    for generation in 0..input.generations {
        let first = input.seed * 1_000_000 + (generation * input.pairs) as i64 + 1;
        let seeds: Vec<i64> = (first..first + input.pairs as i64)
            .flat_map(|seed| [seed, -seed])
            .collect();
        let scores = try_join_all(seeds.iter().map(|&seed| task.score(&adapter, seed))).await?;
        zo::update(&adapter, &scores, &seeds, input.sigma)?;

        let reward = task.score(&adapter, 0).await?;
        rewards.push(reward);
        let best = scores.iter().copied().fold(f32::MIN, f32::max);
        session::send(&format!(
            "generation {}: reward {reward:.3}, best candidate {best:.3}",
            generation + 1
        ));
    }
    session::send_file(plot::curve(&rewards).as_bytes());
    Ok(Learned {
        rewards,
        candidates: population * input.generations,
    })
}

/// The prompts, and the answer that the model is to learn.
struct Task {
    prompts: Vec<Context>, // up to the model's turn
    continued: Vec<u32>, // the beginning of that turn, then the wanted answer without its last token
    wanted: Vec<u32>,
}

impl Task {
    async fn new(model: &Model, beginning: &str) -> Result<Self> {
        let wanted = model.tokenizer().try_encode(beginning)?;
        if wanted.is_empty() {
            return Err("the beginning is empty: give the text that answers should begin with".into());
        }
        let mut prompts = Vec::new();
        for text in PROMPTS {
            let mut ctx = Context::new(model)?;
            ctx.user(text).flush().await?;
            prompts.push(ctx);
        }
        let mut cued = prompts[0].fork()?;
        let mut continued = cued.cue().buffer().to_vec();
        continued.extend_from_slice(&wanted[..wanted.len() - 1]);
        Ok(Self {
            prompts,
            continued,
            wanted,
        })
    }

    /// The mean log-probability of a token of the wanted answer, under the adapter with the noise of `seed`.
    async fn score(&self, adapter: &Adapter, seed: i64) -> Result<f32> {
        let scores = try_join_all(
            self.prompts
                .iter()
                .map(|ctx| self.score_prompt(ctx, adapter, seed)),
        )
        .await?;
        Ok(scores.iter().sum::<f32>() / scores.len() as f32)
    }

    async fn score_prompt(&self, prompt: &Context, adapter: &Adapter, seed: i64) -> Result<f32> {
        let mut ctx = prompt.fork()?;
        let first_row = (self.continued.len() - self.wanted.len()) as u32;
        let mut pass = ctx.forward();
        pass.adapter(adapter).zo_seed(seed).input(&self.continued);
        let probes: Vec<_> = (first_row..)
            .zip(&self.wanted)
            .map(|(row, &token)| pass.probe(row, Logprobs(vec![token])))
            .collect();
        let count = probes.len() as f32;
        let output = pass.execute().await?;
        let sum: f32 = probes
            .into_iter()
            .filter_map(|probe| Some(output.logprobs(probe)?[0]))
            .sum();
        Ok(sum / count)
    }
}
