//! The examples of the reference, kept compiling. They need an engine to run, so nothing here calls them;
//! what counts is that names, types and borrows are as documented. `#[inferlet::main]` is covered by the examples.
#![allow(dead_code, unused_mut, unused_variables)]

use std::future::Future;
use std::time::Duration;

use inferlet::prelude::*;
use inferlet::sample::{Distribution, Entropy, Logits, Logprob, Logprobs};
use inferlet::{AnyJson, Constrain, Ebnf, GrammarConstraint, JsonSchema, Regex};

fn runtime_and_model() -> Result<()> {
    let _: Vec<String> = runtime::models();
    let _: [String; 3] = [runtime::version(), runtime::instance_id(), runtime::username()];
    let model = inferlet::model::Model::load("default")?;
    let tok: &inferlet::Tokenizer = model.tokenizer();
    let ids: Vec<u32> = tok.encode("text");
    let _: String = tok.decode(&ids)?;
    let (_, _): (Vec<u32>, Vec<Vec<u8>>) = tok.vocabs();
    let (_, _): (Vec<u32>, Vec<Vec<u8>>) = tok.special_tokens();
    let _: &str = tok.split_regex();
    let mut args: inferlet::Arguments = inferlet::parse_args(vec!["--n".to_string()]);
    let _: usize = args.value_from_str("--n").unwrap_or(4);
    Ok(())
}

/// With the prelude, a program's own functions may name their error.
fn other_errors() -> Result<u8, std::num::ParseIntError> {
    let text: Result<String> = Ok("7".to_string());
    text.unwrap_or_default().parse()
}

/// `unwrap_err()` needs `Debug` of the value that is not there, and so does a derived `Debug` of a program's own type.
fn values_can_be_shown() {
    fn shown<T: std::fmt::Debug>() {}
    shown::<inferlet::context::Context>();
    shown::<(Model, inferlet::Tokenizer, Adapter)>();
    shown::<(inferlet::Grammar, inferlet::Matcher, GrammarConstraint)>();
    shown::<(Generator<'static>, GenStep<'static>, Forward<'static>, inferlet::Idle<'static>)>();
    shown::<(chat::Decoder, inferlet::reasoning::Decoder, inferlet::tools::Decoder)>();
    shown::<inferlet::mcp::client::Session>();
}

async fn context(model: &Model) -> Result<()> {
    let mut ctx = Context::new(model)?;
    ctx.system("s").user("u").assistant("a").cue().seal().append(&[1, 2]);
    ctx.flush().await?;
    ctx.truncate(1)?;
    ctx.save("name")?;
    let name: String = ctx.snapshot()?;
    let _ = Context::open(model, &name)?;
    let _ = Context::take(model, &name)?;
    Context::delete(model, &name)?;
    let fork = ctx.fork()?;
    let (_, _, _): (&Model, u32, u32) = (ctx.model(), ctx.page_size(), ctx.seq_len());
    let _: &[u32] = ctx.buffer();
    let raw: &inferlet::RawContext = ctx.inner();
    raw.reserve_working_pages(1)?;
    raw.commit_working_pages(0)?;
    raw.release_working_pages(1);
    raw.truncate_working_page_tokens(0);
    let _ = raw.committed_page_count() + raw.working_page_count() + raw.working_page_token_count();
    ctx.set_bid(2.5);
    {
        let _g = ctx.idle();
    }
    ctx.suspend()?;
    use inferlet::scheduling::*;
    let _: f64 = price() + rent(&ctx) + dividend(model) + latency(&ctx) + balance(model);
    Ok(())
}

async fn steps(ctx: &mut Context, model: &Model, chosen_token: u32) -> Result<()> {
    use inferlet::pie::core::session;

    let mut g = ctx.generate(Sampler::Argmax).max_tokens(256);
    while let Some(mut step) = g.next()? {
        let out = step.execute().await?;
        g.accept(&[chosen_token]);
    }

    let mut g = ctx.generate(Sampler::TopP { temperature: 0.6, p: 0.95 }).max_tokens(512);
    let mut dec = chat::Decoder::new(model);
    while let Some(step) = g.next()? {
        let out = step.execute().await?;
        if let chat::Event::Delta(s) = dec.feed(&out.tokens)? {
            session::send(&s);
        }
    }

    let (long, short): (u32, u64) = (256, 9);
    let _ = ctx.generate(Sampler::Argmax).max_tokens(long).horizon(short);
    let mut g = ctx.generate(Sampler::Argmax).max_tokens(4).stop(&[1]).add_stop(&[2]).horizon(9);
    let every = g.probe_each_step(0, Entropy);
    while let Some(mut step) = g.next()? {
        step.clear_sampler();
        let logits = step.probe(0, Logits);
        // The generator can be asked while a step is at hand.
        let first = g.tokens_generated() == 0 && !g.is_done();
        let out = step.execute().await?;
        let _: Option<&[u8]> = out.logits(logits);
        let _: Option<f32> = out.entropy(every);
        let _: Option<SampleHandle> = out.auto_sampler();
        let _: Vec<u32> = g.accept(&[chosen_token]);
    }
    // The generator is not used any more: the context is free again, in the same scope.
    ctx.user("next turn");
    Ok(())
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Answer {
    value: u32,
}

struct Nothing;
impl Constrain for Nothing {
    fn step(&mut self, accepted: &[u32]) -> &[u32] {
        &[]
    }
}

struct Drafts;
impl Speculator for Drafts {
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>) {
        Default::default()
    }
    fn accept(&mut self, accepted: &[u32]) {}
}

struct Mine;
impl Schema for Mine {
    fn build_constraint(&self, model: &Model) -> Result<GrammarConstraint> {
        Ok(GrammarConstraint::json(model))
    }
}

async fn collectors(ctx: &mut Context, model: &Model, s: &str) -> Result<()> {
    let sampler = Sampler::top_p(0.6, 0.95);
    let g = ctx.generate(Sampler::TopP { temperature: 0.6, p: 0.95 }).max_tokens(256);
    let _: String = g.collect_text().await?;
    let _: Vec<u32> = ctx.generate(sampler).collect_tokens().await?;
    let _ = ctx.generate(sampler).collect_json::<Answer>().await?;
    let grammar = inferlet::Grammar::from_regex("a+")?;
    ctx.generate(sampler)
        .constrain(Nothing)
        .constrain_with(JsonSchema(s))?
        .constrain_with(AnyJson)?
        .constrain_with(Regex("a"))?
        .constrain_with(Ebnf("start: \"a\""))?
        .constrain_with(&grammar)?
        .constrain_with(Mine)?
        .constrain_with(Box::new(Mine) as Box<dyn Schema>)?
        .speculator(Drafts)
        .zo_seed(-1)
        .collect_tokens()
        .await?;
    ctx.generate(sampler).system_speculation().collect_tokens().await?;
    let adapter = inferlet::adapter::Adapter::create(model, "my-adapter")?;
    let _: Option<Adapter> = Adapter::open(model, "x");
    adapter.fork("y").save("p")?;
    adapter.load("p")?;
    ctx.generate(sampler).adapter(&adapter).collect_text().await?;
    adapter.destroy();
    Ok(())
}

async fn at_once(mut contexts: Vec<Context>) -> Result<Vec<String>> {
    let runs =
        contexts.iter_mut().map(|ctx| ctx.generate(Sampler::Argmax).max_tokens(8).collect_text());
    futures::future::try_join_all(runs).await
}

async fn forward(ctx: &mut Context, token_ids: Vec<u32>) -> Result<()> {
    let mut fwd = ctx.forward();
    fwd.input(&token_ids);
    let h = fwd.sample(&[0], Sampler::Argmax);
    let out = fwd.execute().await?;
    let token = out.token(h);

    let mut fwd = ctx.forward();
    let _ = fwd.start_position() + fwd.page_size();
    fwd.input(&token_ids).input_at(&token_ids, &[7]).attention_mask(&[vec![0, 1]]).mask(&[0, 5]);
    fwd.zo_seed(3).seed(4);
    let sample = fwd.sample(&[0, 1], Sampler::multinomial(1.0, 2));
    let dist = fwd.probe(0, Distribution { temperature: 1.0, k: 5 });
    let one = fwd.probe(0, Logprob(9));
    let several = fwd.probe(0, Logprobs(vec![1, 2]));
    let slice = fwd.probe(0, Logprobs(&token_ids[..]));
    let entropy = fwd.probe(0, Entropy);
    let out = fwd.execute().await?;
    let _: Option<u32> = out.token(sample);
    let _: Vec<u32> = out.tokens_at(sample);
    let _: Option<(&[u32], &[f32])> = out.distribution(dist);
    let _: [Option<&[f32]>; 3] = [out.logprobs(one), out.logprobs(several), out.logprobs(slice)];
    let _: Option<f32> = out.entropy(entropy);
    let _: &inferlet::RawOutput = out.raw();
    let _: &[u32] = &out.tokens;
    Ok(())
}

fn matcher(model: &Model, grammar_src: &str, prefix_tokens: Vec<u32>) -> Result<()> {
    use inferlet::inference::{Grammar, Matcher};

    let grammar = Grammar::from_ebnf(grammar_src)?;
    let mut m = Matcher::new(&grammar, &model.tokenizer());
    m.accept_tokens(&prefix_tokens)?;
    let mask = m.next_token_logit_mask();
    let done = m.is_terminated();
    m.reset();
    let fork: Matcher = m.fork()?;
    m.rollback(1)?;
    let _: Vec<u32> = m.forced_tokens()?;
    let _ = GrammarConstraint::new(m);
    let _ = GrammarConstraint::from_ebnf(grammar_src, model)?;
    Ok(())
}

fn decoders(model: &Model, tokens: Vec<u32>) -> Result<()> {
    let mut dec = chat::Decoder::new(model);
    match dec.feed(&tokens)? {
        chat::Event::Delta(s) => {}
        chat::Event::Done(s) => {}
        chat::Event::Idle => {}
        chat::Event::Interrupt(token_id) => {}
    }
    dec.reset();
    match reasoning::Decoder::new(model).feed(&tokens)? {
        reasoning::Event::Idle | reasoning::Event::Start => {}
        reasoning::Event::Delta(s) | reasoning::Event::End(s) => {}
    }
    match tools::Decoder::new(model).feed(&tokens)? {
        tools::Event::Start => {}
        tools::Event::Call(name, args_json) => {}
    }
    let schema = "{}";
    let _: Vec<u32> = tools::equip_prefix(model, &[schema])?;
    let _: Vec<u32> = tools::equip_prefix(model, &[])?;
    let owned: Vec<String> = vec![schema.to_string()];
    let _: Vec<u32> = tools::equip_prefix(model, &owned)?;
    let _: Vec<u32> = tools::equip_prefix(model, &owned[..])?;
    let _: Vec<u32> = tools::equip_prefix(model, &[&owned[0], &owned[0]])?;
    let _: Vec<u32> = tools::answer_prefix(model, "name", "{}");
    let _: Option<(String, String)> = tools::parse_call(model, "text");
    let _: Option<inferlet::Grammar> = tools::native_grammar(model, &[schema]);
    if let Some(matcher) = tools::native_matcher(model, &[schema]) {
        let _ = GrammarConstraint::new(matcher);
    }
    let _: Option<inferlet::Matcher> = tools::try_native_matcher(model, &[schema])?;
    Ok(())
}

async fn talking() -> Result<String> {
    use inferlet::mcp;
    use inferlet::pie::core::session;
    use inferlet::FutureBlobExt;

    session::send("hello");
    session::send_file(&[1, 2, 3]);
    let next = session::receive();
    let msg: Option<String> = next.wait_async().await;
    let next = session::receive();
    if next.wait_async().await.as_deref() == Some("stop") {
        return Ok("stopped".into());
    }
    let blob: Vec<u8> = session::receive_file().wait_async().await.ok_or("client disconnected")?;
    inferlet::time::timeout(Duration::from_secs(1), session::receive().wait_async()).await?;

    messaging::broadcast("topic", "msg");
    messaging::push("topic", "msg");
    let _: Option<String> = messaging::pull("topic").wait_async().await;
    let sub = messaging::subscribe("topic");
    let pollable = sub.pollable();
    drop(pollable);
    let _: Option<String> = sub.get();
    let _: Option<String> = sub.get_async().await;
    sub.unsubscribe();

    let _: Vec<String> = mcp::client::available_servers();
    let s = mcp::client::connect("name")?;
    let _ = s.list_tools()? + &s.call_tool("name", "{}")? + &s.list_resources()?;
    Ok(s.read_resource("uri")? + &s.list_prompts()? + &s.get_prompt("name", "{}")?)
}

async fn children_and_files() -> Result<String> {
    let _: Option<Vec<u8>> = inferlet::session::receive_file().wait_async().await;
    let child: runtime::Child = runtime::launch("name", "{}")?;
    child.wait_async().await
}

/// The functions of the raw bindings take the SDK's own types.
async fn raw_pass(model: &Model, adapter: &Adapter) -> Result<()> {
    use inferlet::inference::{ForwardPass, Output, Sampler};

    let _: Vec<u32> = inferlet::pie::instruct::chat::stop_tokens(model);
    let grammar = inferlet::pie::core::inference::Grammar::json();
    let _ = inferlet::pie::core::inference::Matcher::new(&grammar, model.tokenizer());
    let pass = ForwardPass::new(model);
    pass.adapter(adapter);
    pass.sampler(&[0], &Sampler::TopP((0.6, 0.95)));
    let _: Output = pass.execute_async().await?;
    Ok(())
}

/// Adds two numbers.
#[inferlet::tool]
async fn add(
    /// The first number.
    a: i32,
    b: Option<u8>,
) -> Result<i32> {
    Ok(a + i32::from(b.unwrap_or_default()))
}

/// Says hello.
#[inferlet::tool]
fn greet(name: String) -> String {
    format!("hello {name}")
}

fn equipped(ctx: &mut Context) -> Result<()> {
    ctx.equip(&[&add, &greet, &Plain])?;
    Ok(())
}

/// A tool that knows the schema of its arguments alone.
struct Plain;
impl Tool for Plain {
    fn name(&self) -> &str {
        "plain"
    }
    fn description(&self) -> &str {
        "Does nothing."
    }
    fn schema(&self) -> String {
        r#"{"type": "object", "properties": {"z": {}, "a": {}}}"#.into()
    }
}

#[test]
fn a_tool_describes_itself_and_is_called_with_json() {
    let schema: serde_json::Value = serde_json::from_str(&add.schema()).unwrap();
    assert_eq!(schema["name"], "add");
    assert_eq!(schema["description"], "Adds two numbers.");
    let parameters = &schema["parameters"];
    assert_eq!(parameters["required"], serde_json::json!(["a"]));
    assert_eq!(parameters["properties"]["a"]["description"], "The first number.");
    assert_eq!(parameters["properties"]["b"]["maximum"], 255);

    let run =
        futures::executor::block_on::<std::pin::Pin<Box<dyn Future<Output = Result<String>>>>>;
    assert_eq!(run(Box::pin(add::call(r#"{"a": 2, "b": 3}"#))).unwrap(), "5");
    assert_eq!(run(Box::pin(greet::call(r#"{"name": "pie"}"#))).unwrap(), "hello pie");
    assert!(run(Box::pin(add::call(r#"{"a": "x"}"#))).unwrap_err().contains("arguments of add"));
    assert_eq!(greet::call_typed("you".into()), "hello you");
}
