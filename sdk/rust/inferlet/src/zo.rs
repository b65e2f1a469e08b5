//! Zeroth-order optimisation: tunes adapters by seeds and the scores that they earned.

use crate::adapter::Adapter;
use crate::pie::zo::zo;
use crate::Result;

/// The settings of a search for better adapter weights.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The rank of the adapter's matrices.
    pub rank: u32,
    /// The adapter's scale: its change is multiplied by alpha / rank.
    pub alpha: f32,
    /// How many seeds are tried in a round.
    pub population_size: u32,
    /// The share of the population that counts as its best.
    pub mu_fraction: f32,
    /// The size of the first perturbations.
    pub initial_sigma: f32,
}

/// Prepares an adapter for the search.
pub fn initialize(adapter: &Adapter, search: Search) -> Result<()> {
    let Search { rank, alpha, population_size, mu_fraction, initial_sigma } = search;
    zo::initialize(adapter.inner(), rank, alpha, population_size, mu_fraction, initial_sigma)
}

/// Moves the adapter towards the seeds that scored well. Passes were perturbed by `zo_seed`.
pub fn update(adapter: &Adapter, scores: &[f32], seeds: &[i64], max_sigma: f32) -> Result<()> {
    if scores.len() != seeds.len() {
        return Err(format!(
            "update() needs one score for each seed, but got {} scores and {} seeds",
            scores.len(),
            seeds.len()
        ));
    }
    zo::update(adapter.inner(), scores, seeds, max_sigma)
}
