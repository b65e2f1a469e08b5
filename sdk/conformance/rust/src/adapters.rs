//! Cases about adapters and zeroth-order tuning.

use inferlet::prelude::*;
use inferlet::zo;
use serde_json::{json, Value};

use crate::{model, Input};

async fn generate(input: &Input, adapter: Option<&Adapter>, seed: Option<i64>) -> Result<Vec<u32>> {
    let mut ctx = Context::new(&model()?)?;
    let mut generator = ctx
        .user(&input.prompt)
        .cue()
        .generate(Sampler::Argmax)
        .max_tokens(input.max_tokens);
    if let Some(adapter) = adapter {
        generator = generator.adapter(adapter);
    }
    if let Some(seed) = seed {
        generator = generator.zo_seed(seed);
    }
    generator.collect_tokens().await
}

pub async fn adapter(input: &Input) -> Result<Value> {
    let model = model()?;
    for name in ["conformance", "conformance-copy", "conformance-import"] {
        if let Some(old) = Adapter::open(&model, name) {
            old.destroy();
        }
    }
    let made = Adapter::create(&model, "conformance")?;
    let search = zo::Search {
        rank: 2,
        alpha: 2.0,
        population_size: 4,
        mu_fraction: 0.5,
        initial_sigma: 0.5,
    };
    zo::initialize(&made, search)?;
    let plain = generate(input, None, None).await?;
    let zero = generate(input, Some(&made), None).await?;
    let seeded = generate(input, Some(&made), Some(7)).await?;
    let again = generate(input, Some(&made), Some(7)).await?;
    let negative = generate(input, Some(&made), Some(-7)).await?;
    zo::update(&made, &[4.0, 1.0, 3.0, 2.0], &[7, -7, 8, -8], 1.0)?;
    let tuned = generate(input, Some(&made), None).await?;
    let copy = made.fork("conformance-copy");
    let forked = generate(input, Some(&copy), None).await?;
    let opened = Adapter::open(&model, "conformance-copy").is_some();
    let taken = Adapter::create(&model, "conformance").is_err();
    let wrong = zo::update(&made, &[1.0], &[1], 1.0).is_err();
    let fork_taken = made.try_fork("conformance-copy").is_err();
    let files = made.export()?;
    let imported = Adapter::create(&model, "conformance-import")?;
    let bad_import = imported.import(&files.config, b"no tensors").is_err();
    imported.import(&files.config, &files.tensors)?;
    let exported = generate(input, Some(&imported), None).await?;
    let mut names = Adapter::names(&model)?;
    names.retain(|name| name.starts_with("conformance"));
    for adapter in [&made, &copy, &imported] {
        adapter.destroy();
    }
    Ok(json!({
        "zero_same": zero == plain,
        "seed_differs": seeded != plain,
        "seed_same": seeded == again,
        "tuned_differs": tuned != plain,
        "forked_same": forked == tuned,
        "plain": plain,
        "seeded": seeded,
        "negative": negative,
        "tuned": tuned,
        "opened": opened,
        "taken": taken,
        "wrong_scores": wrong,
        "fork_taken": fork_taken,
        "bad_import": bad_import,
        "exported_same": exported == tuned,
        "names": names,
        "gone": Adapter::open(&model, "conformance").is_none(),
    }))
}
