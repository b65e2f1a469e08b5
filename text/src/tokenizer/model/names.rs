//! The spellings of all tokens by id, and the ids by spelling, in two flat tables.
use crate::tokenizer::limits;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

#[derive(Default)]
pub struct Names {
    text: String,
    ends: Vec<u32>,
    /// Open addressing: an id, or `FREE`. Hashed with a key of this process: files are not trusted.
    slots: Vec<u32>,
    keys: RandomState,
    longest: usize,
}

const FREE: u32 = u32::MAX;

impl Names {
    /// Of tokens by id; no spelling where there is no token. Of equal spellings the first id is meant.
    pub fn new<'a>(all: impl Iterator<Item = &'a str>) -> Result<Names, String> {
        let mut names = Names::default();
        for name in all {
            names.text.push_str(name);
            let end = u32::try_from(names.text.len())
                .map_err(|_| "its tokens have more than 4 GiB: it is damaged")?;
            names.ends.push(end);
            names.longest = names.longest.max(name.len());
        }
        limits::check_size("it", names.ends.len())?;
        names.text.shrink_to_fit();
        names.ends.shrink_to_fit();
        names.slots = vec![FREE; (names.ends.len() * 3 / 2 + 1).next_power_of_two()];
        for id in 0..names.ends.len() as u32 {
            let name = names.slice(id);
            if !name.is_empty() {
                let at = names.slot(name);
                if names.slots[at] == FREE {
                    names.slots[at] = id;
                }
            }
        }
        Ok(names)
    }

    /// None for ids without a token.
    pub fn get(&self, id: u32) -> Option<&str> {
        let known = (id as usize) < self.ends.len();
        known
            .then(|| self.slice(id))
            .filter(|name| !name.is_empty())
    }

    pub fn id(&self, name: &str) -> Option<u32> {
        if name.is_empty() || name.len() > self.longest {
            return None;
        }
        Some(self.slots[self.slot(name)]).filter(|&id| id != FREE)
    }

    fn slice(&self, id: u32) -> &str {
        let start = if id == 0 {
            0
        } else {
            self.ends[id as usize - 1]
        };
        &self.text[start as usize..self.ends[id as usize] as usize]
    }

    /// Where `name` is, or would be. There is always a free slot.
    fn slot(&self, name: &str) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.keys.hash_one(name) as usize & mask;
        while self.slots[at] != FREE && self.slice(self.slots[at]) != name {
            at = (at + 1) & mask;
        }
        at
    }
}
