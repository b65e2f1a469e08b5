//! Calls every host function, in groups, and generates tokens under pressure. `bench/soak.cc` cancels it at every moment.

use inferlet::pie::core::adapter::Adapter;
use inferlet::pie::core::context::Context;
use inferlet::pie::core::inference::{ForwardPass, FutureOutput, Grammar, Matcher, Sampler};
use inferlet::pie::core::model::Model;
use inferlet::pie::core::{messaging, runtime, scheduling, session};
use inferlet::pie::instruct::{chat, reasoning, tool_use};
use inferlet::pie::mcp::client;
use inferlet::pie::plus::{
    adapters, bidding, broadcasts, caching, calls, chains, constraints, fallible, outcome,
    sampling, steps, turns,
};
use inferlet::pie::zo::zo;
use inferlet::wasi::clocks::monotonic_clock;
use serde::Deserialize;

type Result<T> = std::result::Result<T, String>;

#[derive(Deserialize)]
struct Input {
    mode: String,
    /// How many tokens to generate, or which number to begin with.
    #[serde(default)]
    n: usize,
    /// Of a saved context.
    #[serde(default)]
    name: String,
}

const GREEDY: Sampler = Sampler::TopP((0.0, 1.0));
const TOOL: &str = r#"{"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}"#;

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    let model = Model::load(&runtime::models()[0])?;
    match input.mode.as_str() {
        "groups" => Ok(
            "runtime model context inference chains grammar messaging chat tools adapter mcp"
                .into(),
        ),
        "runtime" => call_runtime(),
        "model" => call_model(&model),
        "context" => call_context(&model),
        "inference" => call_inference(&model),
        "chains" => call_chains(&model),
        "grammar" => call_grammar(&model),
        "messaging" => call_messaging(),
        "chat" => call_chat(&model),
        "tools" => call_tools(&model),
        "adapter" => call_adapter(&model),
        "mcp" => call_mcp(),
        "generate" => generate(&model, input.n),
        "save" => save(&model, input.n),
        "open" => open(&model, &input.name),
        "end" => Ok("ended".into()),
        "sleep" => {
            monotonic_clock::subscribe_duration(3_600_000_000_000).block();
            Ok("slept".into())
        }
        "fail" => Err("as asked".into()),
        "trap" => std::process::exit(3),
        mode => Err(format!("there is no mode {mode}")),
    }
}

/// The result of a call does not matter here, errors included.
fn any<T>(_answer: T) {}

fn new_context(model: &Model) -> Result<Context> {
    let context = Context::create(model)?;
    context.reserve_working_pages(4)?;
    Ok(context)
}

fn new_pass(model: &Model, context: &Context, first: u32, count: u32) -> ForwardPass {
    let pass = ForwardPass::new(model);
    pass.context(context);
    pass.input_tokens(
        &vec![97; count as usize],
        &(first..first + count).collect::<Vec<_>>(),
    );
    pass.sampler(&[count - 1], &GREEDY);
    pass
}

fn wait(output: FutureOutput) {
    output.pollable().block();
    any(outcome::failure(&output));
    any(output.get());
}

fn call_runtime() -> Result<String> {
    any((
        runtime::version(),
        runtime::instance_id(),
        runtime::username(),
    ));
    let child = runtime::launch("bench-soak", r#"{"mode": "end"}"#)?;
    any(child.pid());
    child.pollable().block();
    any(child.get());
    child.cancel();
    Ok("called".into())
}

fn call_model(model: &Model) -> Result<String> {
    let tokenizer = model.tokenizer();
    let tokens = tokenizer.encode("some words");
    any(tokenizer.decode(&tokens));
    any((
        tokenizer.vocabs(),
        tokenizer.special_tokens(),
        tokenizer.split_regex(),
    ));
    any(fallible::encode(&tokenizer, "more words"));
    drop(tokenizer);
    drop(Model::load(&runtime::models()[0])?);
    Ok("called".into())
}

fn call_context(model: &Model) -> Result<String> {
    let context = new_context(model)?;
    let name = runtime::instance_id();
    any((
        context.tokens_per_page(),
        context.model(),
        context.committed_page_count(),
    ));
    wait(new_pass(model, &context, 0, 20).execute()?);
    any((
        context.working_page_count(),
        context.working_page_token_count(),
        caching::cached_tokens(&context),
    ));
    any(context.commit_working_pages(1));
    any(bidding::expect(&context, Some(3.0), 1.0));
    any(bidding::once(&context, 1.0));
    any(bidding::idle(&context, true));
    context.bid(1.0);
    any((
        scheduling::price(),
        scheduling::rent(&context),
        scheduling::dividend(model),
    ));
    any((scheduling::latency(&context), scheduling::balance(model)));
    let fork = context.fork()?;
    any(fork.suspend());
    any(fork.save(&name));
    any(Context::open(model, &name));
    any(Context::take(model, &name));
    any(context.save(&name));
    any(Context::delete(model, &name));
    if let Ok(snapshot) = context.snapshot() {
        any(Context::delete(model, &snapshot));
    }
    any(fallible::release_working_pages(&fork, 1));
    any(fallible::truncate_working_page_tokens(&fork, 1));
    context.truncate_working_page_tokens(1);
    context.release_working_pages(1);
    fork.destroy();
    drop(fork);
    Ok("called".into())
}

fn call_inference(model: &Model) -> Result<String> {
    let context = new_context(model)?;
    let pass = new_pass(model, &context, 0, 2);
    sampling::seed(&pass, 7);
    pass.attention_mask(&[vec![0, 1], vec![0, 2]]);
    pass.logit_mask(&[0, 200]);
    wait(pass.execute()?);
    drop(pass);
    let pass = new_pass(model, &context, 2, 1);
    pass.input_speculative_tokens(&[97, 98], &[3, 4]);
    pass.output_speculative_tokens(true);
    any(pass.execute().map(wait));
    let output = steps::begin(&context, &[97], &[], Some(3), &GREEDY)?;
    any(steps::finish(output));
    any(steps::repeat(&context, 97));
    any(steps::problem(&context));
    Ok("called".into())
}

fn call_chains(model: &Model) -> Result<String> {
    let context = new_context(model)?;
    let chain = chains::run(&new_pass(model, &context, 0, 1), 8, &[])?;
    loop {
        chain.pollable().block();
        if chain.take()?.ended.is_some() {
            break;
        }
    }
    drop(chain);
    Ok("called".into())
}

fn call_grammar(model: &Model) -> Result<String> {
    let tokenizer = model.tokenizer();
    let grammar = Grammar::from_regex("[a-z]{1,20}")?;
    any(Grammar::from_json_schema(r#"{"type": "integer"}"#));
    any(Grammar::from_ebnf(r#"root ::= "a" | "b""#));
    any((Grammar::json(), fallible::json_grammar()));
    any(grammar.to_string());
    let matcher = Matcher::new(&grammar, &tokenizer);
    any(fallible::create_matcher(&grammar, &tokenizer));
    any(matcher.accept_tokens(&[97]));
    any((matcher.next_token_logit_mask(), matcher.is_terminated()));
    any(constraints::fork(&matcher));
    any(constraints::forced_tokens(&matcher));
    any(constraints::rollback(&matcher, 1));
    matcher.reset();
    let context = new_context(model)?;
    let pass = new_pass(model, &context, 0, 1);
    any(constraints::constrain(&pass, &matcher));
    wait(pass.execute()?);
    drop((pass, matcher, grammar));
    Ok("called".into())
}

fn call_messaging() -> Result<String> {
    let topic = runtime::instance_id();
    let topic = topic.as_str();
    messaging::push(topic, "one");
    any(fallible::push(topic, "two"));
    let text = messaging::pull(topic);
    text.pollable().block();
    any(text.get());
    drop(text);
    any(fallible::pull(topic));
    let subscription = messaging::subscribe(topic);
    any(fallible::subscribe(topic));
    messaging::broadcast(topic, "all");
    any(fallible::broadcast(topic, "all again"));
    subscription.pollable().block();
    any(subscription.get());
    any(broadcasts::dropped(&subscription));
    subscription.unsubscribe();
    drop(subscription);
    session::send("a message");
    session::send_file(b"a file");
    any(fallible::send("a message"));
    any(fallible::send_file(b"a file"));
    let blob = session::receive_file();
    any((blob.pollable(), blob.get()));
    drop(blob);
    any(session::receive());
    Ok("called".into())
}

fn call_chat(model: &Model) -> Result<String> {
    let tokens = chat::user(model, "hello");
    any((
        chat::system(model, "be brief"),
        chat::assistant(model, "yes"),
    ));
    any((
        chat::cue(model),
        chat::seal(model),
        chat::stop_tokens(model),
    ));
    let turn = turns::Turn {
        kind: turns::Kind::User,
        text: "hello".into(),
        name: String::new(),
        tools: vec![],
    };
    any(turns::extend(model, &[], &[turn]));
    let decoder = chat::create_decoder(model);
    any(decoder.feed(&tokens));
    decoder.reset();
    drop(decoder);
    let decoder = reasoning::create_decoder(model);
    any(decoder.feed(&tokens));
    decoder.reset();
    drop(decoder);
    Ok("called".into())
}

fn call_tools(model: &Model) -> Result<String> {
    let tools = [TOOL.to_string()];
    any(tool_use::equip(model, &tools));
    any(tool_use::answer(model, "add", "3"));
    any(tool_use::format(model, &tools));
    any(fallible::create_tool_matcher(model, &tools));
    any(fallible::create_tool_decoder(model));
    let decoder = tool_use::create_decoder(model);
    any(decoder.feed(&[97]));
    any(calls::assembling(&decoder));
    decoder.reset();
    drop(decoder);
    any(tool_use::create_matcher(model, &tools));
    Ok("called".into())
}

fn call_adapter(model: &Model) -> Result<String> {
    let name = runtime::instance_id();
    let adapter = Adapter::create(model, &name)?;
    any(Adapter::open(model, &name));
    any(adapter.load("/scratch/none"));
    any(adapter.save("/scratch/none"));
    zo::initialize(&adapter, 2, 1.0, 4, 0.5, 0.1)?;
    let context = new_context(model)?;
    let pass = new_pass(model, &context, 0, 1);
    pass.adapter(&adapter);
    zo::adapter_seed(&pass, 3);
    any(pass.execute().map(wait));
    any(zo::update(&adapter, &[1.0, 0.0], &[1, 2], 0.2));
    if let Ok(files) = adapters::export_files(&adapter) {
        any(adapters::import_files(
            &adapter,
            &files.config,
            &files.tensors,
        ));
    }
    any(adapters::open(model, &name));
    any(adapters::names(model));
    if let Ok(other) = adapters::fork(&adapter, &format!("{name}-other")) {
        any(adapters::destroy(&other));
    }
    let fork = adapter.fork(&format!("{name}-fork"));
    fork.destroy();
    adapter.destroy();
    drop((fork, adapter));
    Ok("called".into())
}

fn call_mcp() -> Result<String> {
    any(client::available_servers());
    let server = client::connect("any").map_err(|error| error.message)?;
    any((server.list_tools(), server.call_tool("add", "{}")));
    any((server.list_resources(), server.read_resource("any:")));
    any((server.list_prompts(), server.get_prompt("any", "{}")));
    drop(server);
    Ok("called".into())
}

/// Saves one context after another, and says which were saved.
fn save(model: &Model, first: usize) -> Result<String> {
    let context = new_context(model)?;
    wait(new_pass(model, &context, 0, 40).execute()?);
    for number in first.. {
        let name = format!("saved-{number}");
        context.save(&name)?;
        session::send(&name);
    }
    Ok("saved".into())
}

/// Opens a saved context, and computes a token after it.
fn open(model: &Model, name: &str) -> Result<String> {
    let context = Context::open(model, name)?;
    context.reserve_working_pages(1)?;
    let output = steps::begin(&context, &[97], &[], None, &GREEDY)?;
    any(steps::finish(output)?);
    Ok("opened".into())
}

/// Generates tokens one by one. Returns how many, and the longest time that a token took, in milliseconds.
fn generate(model: &Model, count: usize) -> Result<String> {
    let context = Context::create(model)?;
    let page = context.tokens_per_page();
    context.reserve_working_pages((count as u32 + 1).div_ceil(page))?;
    let mut longest = 0;
    let mut token = 97;
    for _ in 0..count {
        let begin = monotonic_clock::now();
        let output = steps::begin(&context, &[token], &[], None, &GREEDY)?;
        match steps::finish(output)? {
            steps::Given::Token(next) => token = next,
            steps::Given::Output(_) => return Err("a step has one token".into()),
        }
        longest = longest.max(monotonic_clock::now() - begin);
    }
    Ok(format!("{count} {}", longest / 1_000_000))
}
