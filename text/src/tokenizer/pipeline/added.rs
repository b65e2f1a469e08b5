//! Tokens that are looked for in a text before the model sees it: special ones, and those that were added later.
use crate::tokenizer::limits;
use std::collections::HashMap;
use tokenizers::AddedToken;

pub struct AddedTokens {
    pub tokens: Vec<(u32, AddedToken)>,
    ids: HashMap<String, u32>,
}

impl AddedTokens {
    /// If two tokens have the same name, the first one is used.
    pub fn new(mut tokens: Vec<(u32, AddedToken)>) -> Result<AddedTokens, String> {
        limits::check_added(tokens.iter().map(|t| t.1.content.as_str()))?;
        let mut ids = HashMap::with_capacity(tokens.len());
        tokens.retain(|(id, token)| {
            let new = !token.content.is_empty() && !ids.contains_key(&token.content);
            if new {
                ids.insert(token.content.clone(), *id);
            }
            new
        });
        Ok(AddedTokens { tokens, ids })
    }

    pub fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    pub fn name(&self, id: u32) -> Option<&str> {
        let found = self.tokens.iter().find(|t| t.0 == id);
        found.map(|t| t.1.content.as_str())
    }
}
