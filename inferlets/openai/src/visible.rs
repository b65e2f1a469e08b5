//! Text that can be shown while the model may call a tool: what may become a call is held back.

/// The longest text that may begin a call. A longer text that looked like a call is ordinary text.
const MARK_BYTES: usize = 32;

#[derive(Default)]
pub struct Visible {
    /// Whether a call may come without a mark, as some models write it. Such a call is the whole answer.
    bare_calls: bool,
    held: String,
    begun: bool,
    inside: bool,
    over: bool,
}

impl Visible {
    pub fn new(bare_calls: bool) -> Visible {
        Visible {
            bare_calls,
            ..Visible::default()
        }
    }

    /// Takes more text. `assembling` says that a call has begun, and `called` that one is complete. Returns what can be
    /// shown. Nothing after a call is shown.
    pub fn push(&mut self, text: &str, assembling: bool, called: bool) -> String {
        if self.over {
            return String::new();
        }
        self.held.push_str(text);
        if called {
            let shown = self.before_mark();
            self.over = true;
            return shown;
        }
        if assembling {
            return self.before_mark();
        }
        self.inside = false;
        if !self.begun && self.may_be_bare_call() {
            return String::new();
        }
        let mark = self.held.rfind(['<', '[']).unwrap_or(self.held.len());
        let keep = if self.held.len() - mark <= MARK_BYTES {
            mark
        } else {
            self.held.len()
        };
        self.show(keep)
    }

    /// Returns the text that was held back. Called at the end of the text.
    pub fn rest(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.over {
            return String::new();
        }
        held
    }

    /// Whether the answer may be a call without a mark.
    fn may_be_bare_call(&self) -> bool {
        let text = self.held.trim_start();
        text.is_empty() || (self.bare_calls && text.starts_with(['{', '[']))
    }

    /// Returns the text before the call that has just begun.
    fn before_mark(&mut self) -> String {
        if self.inside || (!self.begun && self.may_be_bare_call()) {
            return String::new();
        }
        self.inside = true;
        let mark = self.held.rfind(['<', '[']).unwrap_or(self.held.len());
        self.show(mark)
    }

    fn show(&mut self, until: usize) -> String {
        let rest = self.held.split_off(until);
        let shown = std::mem::replace(&mut self.held, rest);
        self.begun |= !shown.is_empty();
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_as_it_comes() {
        let mut visible = Visible::default();
        assert_eq!(visible.push("It is ", false, false), "It is ");
        assert_eq!(visible.push("a <", false, false), "a ");
        assert_eq!(visible.push("b> tag", false, false), "");
        let text = visible.push(&"x".repeat(MARK_BYTES), false, false);
        assert!(text.starts_with("<b> tagx"));
        assert_eq!(visible.rest(), "");
    }

    #[test]
    fn a_call_is_not_shown() {
        let mut visible = Visible::default();
        assert_eq!(
            visible.push("Let me see. <tool", false, false),
            "Let me see. "
        );
        assert_eq!(visible.push("_call>{", true, false), "");
        assert_eq!(visible.push("}", true, false), "");
        assert_eq!(visible.push("</tool_call>", false, true), "");
        assert_eq!(visible.push("more", false, false), "");
        assert_eq!(visible.rest(), "");
    }

    #[test]
    fn a_call_that_breaks_off_is_text() {
        let mut visible = Visible::new(true);
        assert_eq!(visible.push("{\"name\":", true, false), "");
        assert_eq!(visible.push(" 5", false, false), "");
        assert_eq!(visible.rest(), "{\"name\": 5");
    }

    #[test]
    fn json_is_text_if_calls_have_a_mark() {
        let mut visible = Visible::new(false);
        assert_eq!(visible.push(" ", false, false), "");
        assert_eq!(visible.push("{\"city\": ", false, false), " {\"city\": ");
        assert_eq!(visible.push("[", false, false), "");
        assert_eq!(visible.rest(), "[");
    }
}
