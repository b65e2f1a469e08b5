//! A template's source, rewritten so that the engine meets nothing that it cannot charge or does not know:
//! raw text becomes a printed string (text inside captures is otherwise free of charge), products are not computed while
//! compiling, and Hugging Face's `{% generation %}` marks become blocks that always run.
use minijinja::machinery::{tokenize, Token, WhitespaceConfig};
use minijinja::Error;

/// A variable that is 1. A product with it is no constant.
pub const ONE: &str = "__one";

/// The settings that transformers gives to Jinja.
fn whitespace() -> WhitespaceConfig {
    WhitespaceConfig {
        keep_trailing_newline: false,
        lstrip_blocks: true,
        trim_blocks: true,
    }
}

/// The tag that is being read.
struct Tag<'a> {
    start: usize,
    is_block: bool,
    /// Its first identifier.
    name: Option<&'a str>,
    /// Ends of the operators that multiply.
    products: Vec<usize>,
    /// A `*` in this place unpacks the value after it; it does not multiply.
    expects_value: bool,
}

pub fn rewrite(source: &str) -> Result<String, Error> {
    let mut out = String::with_capacity(source.len() * 2);
    let mut tag: Option<Tag> = None;
    for token in tokenize(source, false, Default::default(), whitespace()) {
        let (token, span) = token?;
        let (start, end) = (span.start_offset as usize, span.end_offset as usize);
        match (&token, &mut tag) {
            (Token::TemplateData(text), _) => push_text(&mut out, text),
            (Token::VariableStart | Token::BlockStart, _) => {
                tag = Some(Tag {
                    start,
                    is_block: matches!(token, Token::BlockStart),
                    name: None,
                    products: Vec::new(),
                    expects_value: true,
                });
            }
            (Token::VariableEnd | Token::BlockEnd, Some(open)) => {
                push_tag(&mut out, source, open, end);
                tag = None;
            }
            (token, Some(open)) => {
                match token {
                    Token::Ident(name) => open.name = open.name.or(Some(name)),
                    Token::Mul if !open.expects_value => open.products.push(end),
                    _ => {}
                }
                open.expects_value = matches!(token, Token::ParenOpen | Token::Comma);
            }
            _ => {}
        }
    }
    if let Some(open) = tag {
        out.push_str(&source[open.start..]); // the parser reports the error
    }
    Ok(out)
}

fn push_tag(out: &mut String, source: &str, tag: &Tag, end: usize) {
    match tag.name.filter(|_| tag.is_block) {
        Some("generation") => return out.push_str("{% if true %}"),
        Some("endgeneration") => return out.push_str("{% endif %}"),
        _ => {}
    }
    let mut from = tag.start;
    for product in &tag.products {
        out.push_str(&source[from..*product]);
        out.push_str(ONE);
        out.push('*');
        from = *product;
    }
    // Only up to the brackets: the end of a block may have swallowed the newline after them.
    out.push_str(source[from..end].trim_end());
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
