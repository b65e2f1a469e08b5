//! One compiled template: variables in, text out, as transformers renders it. Immutable, shared by threads.
use super::{budget, filters, operators, python, source};
use minijinja::machinery::{make_string_output, parse, CodeGenerator, Instructions, Vm};
use minijinja::value::{Rest, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind};
use std::collections::BTreeMap;

const NAME: &str = "chat template";

pub struct Engine {
    // The program borrows from `source`, so it is declared, and dropped, before it.
    program: Instructions<'static>,
    blocks: BTreeMap<&'static str, Instructions<'static>>,
    env: Environment<'static>,
    #[allow(dead_code)] // owns what `program` borrows
    source: Box<str>,
}

/// The moment that `strftime_now` tells, in seconds since 1970; the clock's local time if none.
pub type Moment = Option<i64>;

impl Engine {
    pub fn new(template: &str, now: Moment) -> Result<Self, String> {
        if template.len() > budget::SOURCE_BYTES {
            return Err(format!(
                "the chat template has {} bytes; {} is the limit",
                template.len(),
                budget::SOURCE_BYTES
            ));
        }
        let source = source::rewrite(template)
            .map_err(|e| explain(&e))?
            .into_boxed_str();
        // The text is on the heap, is not changed, and outlives the program that borrows it.
        let text: &'static str = unsafe { &*std::ptr::from_ref::<str>(&source) };
        let ast =
            parse(text, NAME, Default::default(), Default::default()).map_err(|e| explain(&e))?;
        let mut generator = CodeGenerator::new(NAME, text);
        generator.compile_stmt(&ast);
        let (mut program, mut blocks) = generator.finish();
        operators::replace(&mut program);
        for block in blocks.values_mut() {
            operators::replace(block);
        }
        Ok(Engine {
            program,
            blocks,
            env: environment(now),
            source,
        })
    }

    /// `messages` and `input_bytes` are the size of the conversation. A larger one may cost more.
    pub fn render(
        &self,
        variables: Value,
        messages: usize,
        input_bytes: usize,
    ) -> Result<String, String> {
        let (messages, input) = (messages as u64, input_bytes as u64);
        let mut env = self.env.clone();
        env.set_fuel(Some(
            budget::FUEL + messages * budget::FUEL_A_MESSAGE + input * budget::FUEL_A_BYTE,
        ));
        budget::begin(budget::WORK_BYTES + input * budget::WORK_A_BYTE);
        let mut text = String::new();
        let mut out = make_string_output(&mut text);
        Vm::new(&env)
            .eval(
                &self.program,
                variables,
                &self.blocks,
                &mut out,
                AutoEscape::None,
            )
            .map_err(|e| explain(&e))?;
        Ok(text)
    }
}

fn environment(now: Moment) -> Environment<'static> {
    let mut env = Environment::new();
    env.set_formatter(|out, _, value| {
        match value.as_str() {
            Some(text) => {
                budget::charge(text.len())?;
                out.write_str(text)
            }
            None => out.write_str(&python::str(value)?),
        }
        .map_err(|_| Error::new(ErrorKind::WriteFailure, "cannot write"))
    });
    filters::register(&mut env);
    operators::register(&mut env);
    env.add_function(
        "raise_exception",
        |message: Value| -> Result<Value, Error> {
            Err(Error::new(
                ErrorKind::InvalidOperation,
                python::str(&message)?,
            ))
        },
    );
    env.add_function("strftime_now", move |format: String| strftime(&format, now));
    env.add_function("range", range);
    env.add_global(source::ONE, 1);
    env.remove_global("debug");
    env
}

fn range(bounds: Rest<i64>) -> Result<Value, Error> {
    let (from, to, step) = match bounds[..] {
        [to] => (0, to, 1),
        [from, to] => (from, to, 1),
        [from, to, step] if step != 0 => (from, to, step),
        _ => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "range takes one to three integers",
            ))
        }
    };
    let mut at = from;
    let numbers = std::iter::from_fn(move || {
        let this = at;
        at = at.saturating_add(step);
        (if step > 0 { this < to } else { this > to }).then_some(this)
    });
    Ok(Value::from(operators::list(numbers.map(Value::from))?))
}

fn strftime(format: &str, now: Moment) -> Result<String, Error> {
    use std::fmt::Write;
    let moment = match now {
        Some(seconds) => chrono::DateTime::from_timestamp(seconds, 0).map(|t| t.naive_utc()),
        None => Some(chrono::Local::now().naive_local()),
    };
    let mut text = String::new();
    match moment.map(|m| write!(text, "{}", m.format(format))) {
        Some(Ok(())) => Ok(text),
        _ => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("strftime_now does not know the format {format:?}"),
        )),
    }
}

/// The error and its line, as one sentence.
fn explain(error: &Error) -> String {
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, Some(detail)) => detail.to_string(),
        (ErrorKind::OutOfFuel, None) => "the template takes too many steps".into(),
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_string(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    match error.line() {
        Some(line) => format!("chat template, line {line}: {what}"),
        None => format!("chat template: {what}"),
    }
}
