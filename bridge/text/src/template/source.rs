//! A template's source, rewritten so that the engine meets nothing that it cannot charge or does not know:
//! raw text becomes a printed string (text inside captures is otherwise free of charge), and Hugging Face's
//! `{% generation %}` marks become blocks that always run.
use minijinja::machinery::{tokenize, Token, WhitespaceConfig};
use minijinja::Error;

/// As transformers sets Jinja up.
fn whitespace() -> WhitespaceConfig {
    WhitespaceConfig {
        keep_trailing_newline: false,
        lstrip_blocks: true,
        trim_blocks: true,
    }
}

pub fn rewrite(source: &str) -> Result<String, Error> {
    let mut out = String::with_capacity(source.len() * 2);
    let mut tag_start = 0;
    let mut first_name: Option<Option<&str>> = None; // of the tag we are in: none yet, or its first identifier
    for token in tokenize(source, false, Default::default(), whitespace()) {
        let (token, span) = token?;
        match token {
            Token::TemplateData(text) => push_text(&mut out, text),
            Token::VariableStart => tag_start = span.start_offset as usize,
            Token::BlockStart => {
                tag_start = span.start_offset as usize;
                first_name = Some(None);
            }
            Token::VariableEnd => out.push_str(&source[tag_start..span.end_offset as usize]),
            Token::BlockEnd => {
                match first_name.take().flatten() {
                    Some("generation") => out.push_str("{% if true %}"),
                    Some("endgeneration") => out.push_str("{% endif %}"),
                    _ => {
                        // Only up to the brackets: the end may have swallowed the newline behind them.
                        let tag = &source[tag_start..span.end_offset as usize];
                        out.push_str(tag.trim_end_matches(['\n', '\r', ' ', '\t']));
                    }
                }
            }
            Token::Ident(name) => {
                if let Some(first @ None) = &mut first_name {
                    *first = Some(name);
                }
            }
            _ => {}
        }
    }
    Ok(out)
}

fn push_text(out: &mut String, text: &str) {
    if text.is_empty() {
        return;
    }
    out.push_str("{{\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push_str("\"}}");
}
