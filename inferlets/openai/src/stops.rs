//! Stop texts: a text that may become a stop text is held back until that is known.

pub struct Stops {
    texts: Vec<String>,
    held: String,
}

impl Stops {
    pub fn new(texts: &[String]) -> Stops {
        Stops {
            texts: texts.to_vec(),
            held: String::new(),
        }
    }

    /// Takes more text. Returns what can be shown, and the stop text that ends it, if one does.
    pub fn push(&mut self, text: &str) -> (String, Option<String>) {
        self.held.push_str(text);
        let first = self
            .texts
            .iter()
            .filter_map(|stop| Some((self.held.find(stop.as_str())?, stop)))
            .min();
        if let Some((at, stop)) = first {
            let stop = stop.clone();
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), Some(stop));
        }
        let keep = self
            .texts
            .iter()
            .map(|stop| overlap(&self.held, stop))
            .max()
            .unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        (std::mem::replace(&mut self.held, rest), None)
    }

    /// Returns the text that was held back. Called at the end of the text.
    pub fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// The length of the longest end of `text` with which `stop` begins.
fn overlap(text: &str, stop: &str) -> usize {
    let ends = stop.char_indices().map(|(at, _)| at).skip(1);
    ends.filter(|&at| text.ends_with(&stop[..at]))
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_text_may_come_in_pieces() {
        let mut stops = Stops::new(&["END".to_string(), "\n\n".to_string()]);
        assert_eq!(stops.push("one E"), ("one ".to_string(), None));
        assert_eq!(stops.push("N"), (String::new(), None));
        assert_eq!(stops.push("T two\n"), ("ENT two".to_string(), None));
        assert_eq!(
            stops.push("\nthree"),
            (String::new(), Some("\n\n".to_string()))
        );
    }

    #[test]
    fn without_stop_texts_nothing_is_held_back() {
        let mut stops = Stops::new(&[]);
        assert_eq!(stops.push("abc"), ("abc".to_string(), None));
        assert_eq!(stops.rest(), "");
    }

    #[test]
    fn what_was_held_back_comes_at_the_end() {
        let mut stops = Stops::new(&["ßß".to_string()]);
        assert_eq!(stops.push("aß"), ("a".to_string(), None));
        assert_eq!(stops.rest(), "ß");
    }
}
