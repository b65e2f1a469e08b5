//! Chat templates: the model's own Jinja template, rendered as transformers renders it, and what it adds to a conversation
//! turn by turn. A template is not trusted: what it may cost is in `budget.rs`.
mod budget;
mod call_grammar;
mod call_values;
mod calls;
mod chat;
mod conversation;
mod engine;
mod extend;
mod filters;
mod marks;
mod operators;
mod options;
mod prefix;
mod probe;
mod python;
mod reasoning;
mod renderer;
mod source;
mod specials;
mod turns;

#[cfg(test)]
mod tests;

pub use chat::{variables, ChatTemplate, Setup};
pub use engine::Moment;
pub use options::{parse as options, Options};
pub use turns::{call, tool, Call, Turn, TurnKind};
