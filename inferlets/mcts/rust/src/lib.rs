//! Monte Carlo tree search over the words of an answer. Each round walks down the tree to a promising place, tries the
//! likeliest tokens there, and completes each greedily to see how good a text it leads to. Every node is a context, so a
//! round computes only what is new.

use futures::future::try_join_all;
use inferlet::prelude::*;
use inferlet::sample::Distribution;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    prompt: String,
    rounds: Option<usize>,
    width: Option<u32>,
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Answer {
    text: String,
    probability: f64,
}

struct Node {
    ctx: Context, // computed up to `pending`
    pending: Vec<u32>,
    text: Vec<u32>,
    logprob: f64,
    children: Vec<usize>,
    parent: Option<usize>,
    visits: f64,
    best: f64, // probability of the best text found below
}

/// The likeliest continuations of a context, and their log-probabilities.
async fn likeliest(ctx: &mut Context, pending: &[u32], k: u32) -> Result<Vec<(u32, f64)>> {
    let mut pass = ctx.forward();
    pass.input(pending);
    let probe = pass.probe(
        pending.len() as u32 - 1,
        Distribution {
            temperature: 1.0,
            k,
        },
    );
    let out = pass.execute().await?;
    let (ids, probabilities) = out
        .distribution(probe)
        .ok_or("the pass gave no distribution")?;
    let logprobs = probabilities.iter().map(|p| f64::from(*p).ln());
    Ok(ids.iter().copied().zip(logprobs).collect())
}

/// Completes a node's text greedily, on a fork.
async fn roll_out(node: &Node, stops: &[u32], limit: usize) -> Result<(Vec<u32>, f64)> {
    let (mut ctx, mut pending) = (node.ctx.fork()?, node.pending.clone());
    let (mut text, mut logprob) = (node.text.clone(), node.logprob);
    while !stops.contains(&pending[pending.len() - 1]) && text.len() < limit {
        let (token, added) = likeliest(&mut ctx, &pending, 1).await?[0];
        logprob += added;
        if !stops.contains(&token) {
            text.push(token);
        }
        pending = vec![token];
    }
    Ok((text, logprob))
}

/// The child whose best text and rare visits promise most.
fn promising(nodes: &[Node], at: usize) -> usize {
    let value = |child: &usize| {
        let node = &nodes[*child];
        node.best + (nodes[at].visits.ln() / node.visits).sqrt()
    };
    let children = nodes[at].children.iter().copied();
    children
        .max_by(|a, b| value(a).total_cmp(&value(b)))
        .unwrap_or(at)
}

#[inferlet::main]
async fn main(input: Input) -> Result<Answer> {
    let limit = input.max_tokens.unwrap_or(32);
    let model = Model::load(&runtime::models()[0])?;
    let stops = chat::stop_tokens(&model);
    let mut prompt = chat::user(&model, &input.prompt);
    prompt.extend(chat::cue(&model));
    let root = |ctx, pending| Node {
        ctx,
        pending,
        text: Vec::new(),
        logprob: 0.0,
        children: Vec::new(),
        parent: None,
        visits: 1.0,
        best: 0.0,
    };
    let mut nodes = vec![root(Context::new(&model)?, prompt)];
    let mut found = (Vec::new(), f64::NEG_INFINITY);

    for _ in 0..input.rounds.unwrap_or(8) {
        let mut at = 0;
        while !nodes[at].children.is_empty() {
            at = promising(&nodes, at);
        }
        if stops.contains(&nodes[at].pending[nodes[at].pending.len() - 1]) {
            nodes[at].visits += 1.0; // a complete text: there is nothing below
            continue;
        }
        let Node { ctx, pending, .. } = &mut nodes[at];
        let pending = std::mem::take(pending);
        let choices = likeliest(ctx, &pending, input.width.unwrap_or(3)).await?;
        for (token, logprob) in choices {
            let mut child = root(nodes[at].ctx.fork()?, vec![token]);
            child.text.clone_from(&nodes[at].text);
            if !stops.contains(&token) {
                child.text.push(token);
            }
            child.logprob = nodes[at].logprob + logprob;
            child.parent = Some(at);
            let index = nodes.len();
            nodes[at].children.push(index);
            nodes.push(child);
        }
        let children = nodes[at].children.clone();
        let texts = children
            .iter()
            .map(|child| roll_out(&nodes[*child], &stops, limit));
        let texts = try_join_all(texts).await?;
        for (child, (text, logprob)) in children.iter().zip(texts) {
            if logprob > found.1 {
                found = (text, logprob);
            }
            let mut up = Some(*child);
            while let Some(node) = up {
                nodes[node].visits += 1.0;
                nodes[node].best = nodes[node].best.max(logprob.exp());
                up = nodes[node].parent;
            }
        }
    }
    let text = model.tokenizer().decode(&found.0)?;
    Ok(Answer {
        text,
        probability: found.1.exp(),
    })
}
