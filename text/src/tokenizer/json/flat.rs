//! The two big tables of a BPE file, read without an allocation for each entry.
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;

/// `{"token": id, …}`
#[derive(Default)]
pub struct Vocabulary {
    text: String,
    /// Id, and where its token lies.
    entries: Vec<(u32, u32, u32)>,
}

/// `["a b", …]` or `[["a", "b"], …]`
#[derive(Default)]
pub struct Merges {
    text: String,
    /// Where the left and the right part of each end.
    ends: Vec<(u32, u32)>,
}

/// 32 bits are enough for a file of `limits::JSON_BYTES`.
fn end(text: &str) -> u32 {
    text.len() as u32
}

impl Vocabulary {
    pub fn sort(&mut self) {
        self.entries.sort_unstable();
        self.entries.dedup_by_key(|e| e.0);
    }

    /// One more than the highest id.
    pub fn size(&self) -> u32 {
        let last = self.entries.iter().map(|e| e.0).max();
        last.map_or(0, |id| id.saturating_add(1))
    }

    /// Once sorted: the tokens by id, with nothing where an id has none.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut entries = self.entries.iter().peekable();
        (0..self.size()).map(move |id| {
            let entry = entries.next_if(|e| e.0 == id);
            entry.map_or("", |e| &self.text[e.1 as usize..e.2 as usize])
        })
    }
}

impl Merges {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, index: usize) -> (&str, &str) {
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1].1,
        };
        let (middle, end) = self.ends[index];
        let cut = |from: u32, to: u32| &self.text[from as usize..to as usize];
        (cut(start, middle), cut(middle, end))
    }

    fn push(&mut self, left: &str, right: &str) {
        self.text.push_str(left);
        let middle = end(&self.text);
        self.text.push_str(right);
        self.ends.push((middle, end(&self.text)));
    }
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vocabulary;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a map from tokens to ids")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut all = Vocabulary::default();
                while let Some((Text(token), id)) = map.next_entry::<Text, u32>()? {
                    let start = end(&all.text);
                    all.text.push_str(&token);
                    all.entries.push((id, start, end(&all.text)));
                }
                Ok(all)
            }
        }
        from.deserialize_map(Reader)
    }
}

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Merges;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of merges")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merges, A::Error> {
                let mut all = Merges::default();
                while let Some(merge) = list.next_element::<Merge>()? {
                    match &merge {
                        Merge::Pair(Text(left), Text(right)) => all.push(left, right),
                        Merge::Line(Text(line)) if line.starts_with("#version") => {}
                        Merge::Line(Text(line)) => match line.split_once(' ') {
                            Some((left, right)) if !right.contains(' ') => all.push(left, right),
                            _ => return Err(A::Error::custom(format!("{line:?} is no merge"))),
                        },
                    }
                }
                Ok(all)
            }
        }
        from.deserialize_seq(Reader)
    }
}

/// A string, borrowed from the file where nothing in it is escaped.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.into())))
            }
        }
        from.deserialize_str(Reader)
    }
}

enum Merge<'a> {
    Line(Text<'a>),
    Pair(Text<'a>, Text<'a>),
}

impl<'de> Deserialize<'de> for Merge<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Merge<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a merge")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Merge<'de>, E> {
                Ok(Merge::Line(Text(Cow::Borrowed(text))))
            }
            fn visit_str<E>(self, text: &str) -> Result<Merge<'de>, E> {
                Ok(Merge::Line(Text(Cow::Owned(text.into()))))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge<'de>, A::Error> {
                let short = || A::Error::custom("a merge of fewer than two tokens");
                let left = list.next_element()?.ok_or_else(short)?;
                let right = list.next_element()?.ok_or_else(short)?;
                match list.next_element::<Text>()? {
                    Some(_) => Err(A::Error::custom("a merge of more than two tokens")),
                    None => Ok(Merge::Pair(left, right)),
                }
            }
        }
        from.deserialize_any(Reader)
    }
}
