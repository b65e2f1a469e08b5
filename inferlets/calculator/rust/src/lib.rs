//! Answers a question by arithmetic: the model writes an expression in a language of our own, and the inferlet evaluates
//! it.

use inferlet::prelude::*;
use inferlet::Ebnf;
use serde::{Deserialize, Serialize};

/// The text is complete with its "=".
const LANGUAGE: &str = r#"
start: expression "="
expression: term (("+" | "-") term)*
term: factor (("*" | "/") factor)*
factor: NUMBER | "(" expression ")"
NUMBER: /(0|[1-9][0-9]{0,5})(\.[0-9]{1,3})?/
"#;

#[derive(Deserialize)]
struct Input {
    question: String,
    #[serde(default)]
    temperature: f32,
    #[serde(default)]
    seed: u64,
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Output {
    expression: String,
    value: f64,
}

/// Evaluates a text of the language, rule by rule. There are no syntax errors to look for.
struct Calculator<'a>(&'a str);

impl Calculator<'_> {
    /// The next character if it is one of these.
    fn take(&mut self, choices: &str) -> Option<char> {
        let found = self.0.chars().next().filter(|c| choices.contains(*c))?;
        self.0 = &self.0[found.len_utf8()..];
        Some(found)
    }

    fn expression(&mut self) -> f64 {
        let mut value = self.term();
        while let Some(operator) = self.take("+-") {
            let term = self.term();
            value = if operator == '+' {
                value + term
            } else {
                value - term
            };
        }
        value
    }

    fn term(&mut self) -> f64 {
        let mut value = self.factor();
        while let Some(operator) = self.take("*/") {
            let factor = self.factor();
            value = if operator == '*' {
                value * factor
            } else {
                value / factor
            };
        }
        value
    }

    fn factor(&mut self) -> f64 {
        if self.take("(").is_some() {
            let value = self.expression();
            self.take(")");
            return value;
        }
        let digits: String = std::iter::from_fn(|| self.take("0123456789.")).collect();
        digits.parse().unwrap_or(f64::NAN)
    }
}

#[inferlet::main]
async fn main(input: Input) -> Result<Output> {
    let model = Model::load(&runtime::models()[0])?;
    let max_tokens = input.max_tokens.unwrap_or(200);
    let mut ctx = Context::new(&model)?;
    ctx.system("Answer with an arithmetic expression and an equals sign, such as (2+3)*4=")
        .user(&input.question)
        .cue();
    let generator = ctx
        .generate(Sampler::top_p(input.temperature, 0.95))
        .seed(input.seed)
        .max_tokens(max_tokens)
        .constrain_with(Ebnf(LANGUAGE))?;
    let text = generator.collect_text().await?;
    let Some(expression) = text.strip_suffix('=') else {
        return Err(format!(
            "the expression is not complete after {max_tokens} tokens: {text}"
        ));
    };
    let value = Calculator(expression).expression();
    if !value.is_finite() {
        return Err(format!(
            "the expression divides by zero or is too large: {text}"
        ));
    }
    Ok(Output {
        expression: expression.into(),
        value,
    })
}
