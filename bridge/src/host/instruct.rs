//! pie:instruct: chat, reasoning and tools; and what pie:plus adds to them.
use super::handles::{ChatDecoder, Grammar, Matcher, Model, ReasoningDecoder, ToolDecoder};
use super::table::{Event, EventKind};
use super::{own, Answer, HandleKind};
use crate::abi::{Out, Str, Words};
use crate::host::pie::instruct::{chat, reasoning, tool_use};
use crate::host::pie::plus;
use crate::text::template::{TemplateTurn, TurnKind};
use crate::wasm::Guest;
use wasmtime::component::Resource;
use wasmtime::{format_err, Error, Result};

impl Guest {
    fn new_decoder<T: 'static>(
        &mut self,
        kind: HandleKind,
        model: Resource<Model>,
    ) -> Result<Resource<T>> {
        let mut decoder = 0;
        self.must(|t, g, out| (t.decoder_new)(g, kind, model.rep(), &mut decoder, out))?;
        Ok(own(decoder))
    }
    fn feed_decoder(
        &mut self,
        kind: HandleKind,
        decoder: u32,
        tokens: &[u32],
    ) -> std::result::Result<(Event, Out), String> {
        let mut event = Event::default();
        let tokens = Words::of(tokens);
        let out =
            self.call(|t, g, out| (t.decoder_feed)(g, kind, decoder, tokens, &mut event, out))?;
        Ok((event, out))
    }
    fn reset_decoder(&mut self, kind: HandleKind, decoder: u32) -> Result<()> {
        self.value(|t, g, (), out| (t.decoder_reset)(g, kind, decoder, out))
    }
}

/// The C++ side answered with an event that this decoder does not have.
fn foreign_event() -> Error {
    format_err!("the engine gave a decoder event of another kind (a bug in Pie)")
}

impl chat::Host for Guest {
    fn system(&mut self, model: Resource<Model>, text: String) -> Result<Vec<u32>> {
        Ok(self
            .must(|t, g, out| (t.chat_system)(g, model.rep(), Str::of(&text), out))?
            .words)
    }
    fn user(&mut self, model: Resource<Model>, text: String) -> Result<Vec<u32>> {
        Ok(self
            .must(|t, g, out| (t.chat_user)(g, model.rep(), Str::of(&text), out))?
            .words)
    }
    fn assistant(&mut self, model: Resource<Model>, text: String) -> Result<Vec<u32>> {
        Ok(self
            .must(|t, g, out| (t.chat_assistant)(g, model.rep(), Str::of(&text), out))?
            .words)
    }
    fn cue(&mut self, model: Resource<Model>) -> Result<Vec<u32>> {
        Ok(self
            .must(|t, g, out| (t.chat_cue)(g, model.rep(), out))?
            .words)
    }
    fn seal(&mut self, model: Resource<Model>) -> Result<Vec<u32>> {
        Ok(self
            .must(|t, g, out| (t.chat_seal)(g, model.rep(), out))?
            .words)
    }
    fn stop_tokens(&mut self, model: Resource<Model>) -> Result<Vec<u32>> {
        Ok(self
            .must(|t, g, out| (t.chat_stop_tokens)(g, model.rep(), out))?
            .words)
    }
    fn create_decoder(&mut self, model: Resource<Model>) -> Result<Resource<ChatDecoder>> {
        self.new_decoder(HandleKind::ChatDecoder, model)
    }
}

impl chat::HostDecoder for Guest {
    fn feed(&mut self, decoder: Resource<ChatDecoder>, tokens: Vec<u32>) -> Answer<chat::Event> {
        let fed = self.feed_decoder(HandleKind::ChatDecoder, decoder.rep(), &tokens);
        let (event, out) = match fed {
            Ok(fed) => fed,
            Err(text) => return Ok(Err(text)),
        };
        match event.kind {
            EventKind::Delta => Ok(Ok(chat::Event::Delta(out.into_text()))),
            EventKind::Interrupt => Ok(Ok(chat::Event::Interrupt(event.token))),
            EventKind::Done => Ok(Ok(chat::Event::Done(out.into_text()))),
            _ => Err(foreign_event()),
        }
    }
    fn reset(&mut self, decoder: Resource<ChatDecoder>) -> Result<()> {
        self.reset_decoder(HandleKind::ChatDecoder, decoder.rep())
    }
    fn drop(&mut self, decoder: Resource<ChatDecoder>) -> Result<()> {
        self.drop_handle(HandleKind::ChatDecoder, decoder.rep())
    }
}

impl reasoning::Host for Guest {
    fn create_decoder(&mut self, model: Resource<Model>) -> Result<Resource<ReasoningDecoder>> {
        self.new_decoder(HandleKind::ReasoningDecoder, model)
    }
}

impl reasoning::HostDecoder for Guest {
    fn feed(
        &mut self,
        decoder: Resource<ReasoningDecoder>,
        tokens: Vec<u32>,
    ) -> Answer<reasoning::Event> {
        let fed = self.feed_decoder(HandleKind::ReasoningDecoder, decoder.rep(), &tokens);
        let (event, out) = match fed {
            Ok(fed) => fed,
            Err(text) => return Ok(Err(text)),
        };
        match event.kind {
            EventKind::Start => Ok(Ok(reasoning::Event::Start)),
            EventKind::Delta => Ok(Ok(reasoning::Event::Delta(out.into_text()))),
            EventKind::Done => Ok(Ok(reasoning::Event::Complete(out.into_text()))),
            _ => Err(foreign_event()),
        }
    }
    fn reset(&mut self, decoder: Resource<ReasoningDecoder>) -> Result<()> {
        self.reset_decoder(HandleKind::ReasoningDecoder, decoder.rep())
    }
    fn drop(&mut self, decoder: Resource<ReasoningDecoder>) -> Result<()> {
        self.drop_handle(HandleKind::ReasoningDecoder, decoder.rep())
    }
}

fn strs(texts: &[String]) -> Vec<Str> {
    texts.iter().map(|text| Str::of(text)).collect()
}

impl tool_use::Host for Guest {
    fn equip(&mut self, model: Resource<Model>, tools: Vec<String>) -> Answer<Vec<u32>> {
        let tools = strs(&tools);
        let (list, count) = (tools.as_ptr(), tools.len());
        let made = self.call(|t, g, out| (t.tools_equip)(g, model.rep(), list, count, out));
        Ok(made.map(|out| out.words))
    }
    fn answer(&mut self, model: Resource<Model>, name: String, value: String) -> Result<Vec<u32>> {
        let (name, value) = (Str::of(&name), Str::of(&value));
        Ok(self
            .must(|t, g, out| (t.tools_answer)(g, model.rep(), name, value, out))?
            .words)
    }
    fn create_decoder(&mut self, model: Resource<Model>) -> Result<Resource<ToolDecoder>> {
        self.new_decoder(HandleKind::ToolDecoder, model)
    }
    fn format(
        &mut self,
        model: Resource<Model>,
        tools: Vec<String>,
    ) -> Result<Option<Resource<Grammar>>> {
        let tools = strs(&tools);
        let (list, count) = (tools.as_ptr(), tools.len());
        let (mut grammar, mut found) = (0, false);
        self.must(|t, g, out| {
            (t.tools_format)(g, model.rep(), list, count, &mut grammar, &mut found, out)
        })?;
        Ok(found.then(|| own(grammar)))
    }
    fn create_matcher(
        &mut self,
        model: Resource<Model>,
        tools: Vec<String>,
    ) -> Result<Resource<Matcher>> {
        let tools = strs(&tools);
        let (list, count, mut matcher) = (tools.as_ptr(), tools.len(), 0);
        self.must(|t, g, out| (t.tools_matcher)(g, model.rep(), list, count, &mut matcher, out))?;
        Ok(own(matcher))
    }
}

impl tool_use::HostDecoder for Guest {
    fn feed(
        &mut self,
        decoder: Resource<ToolDecoder>,
        tokens: Vec<u32>,
    ) -> Answer<tool_use::Event> {
        let fed = self.feed_decoder(HandleKind::ToolDecoder, decoder.rep(), &tokens);
        let (event, out) = match fed {
            Ok(fed) => fed,
            Err(text) => return Ok(Err(text)),
        };
        match event.kind {
            EventKind::Start => Ok(Ok(tool_use::Event::Start)),
            EventKind::Call => {
                let mut texts = out.into_texts().into_iter();
                let pair = (
                    texts.next().unwrap_or_default(),
                    texts.next().unwrap_or_default(),
                );
                Ok(Ok(tool_use::Event::Call(pair)))
            }
            _ => Err(foreign_event()),
        }
    }
    fn reset(&mut self, decoder: Resource<ToolDecoder>) -> Result<()> {
        self.reset_decoder(HandleKind::ToolDecoder, decoder.rep())
    }
    fn drop(&mut self, decoder: Resource<ToolDecoder>) -> Result<()> {
        self.drop_handle(HandleKind::ToolDecoder, decoder.rep())
    }
}

impl plus::calls::Host for Guest {
    fn assembling(&mut self, decoder: Resource<ToolDecoder>) -> Result<bool> {
        self.value(|t, g, value, out| (t.decoder_assembling)(g, decoder.rep(), value, out))
    }
}

fn flat_kind(kind: plus::turns::Kind) -> TurnKind {
    use plus::turns::Kind;
    match kind {
        Kind::System => TurnKind::System,
        Kind::User => TurnKind::User,
        Kind::Assistant => TurnKind::Assistant,
        Kind::Tools => TurnKind::Tools,
        Kind::Answer => TurnKind::Answer,
        Kind::Cue => TurnKind::Cue,
    }
}

impl plus::turns::Host for Guest {
    fn extend(
        &mut self,
        model: Resource<Model>,
        before: Vec<plus::turns::Kind>,
        turns: Vec<plus::turns::Turn>,
    ) -> Answer<Vec<u32>> {
        let before: Vec<TurnKind> = before.into_iter().map(flat_kind).collect();
        let tools: Vec<Vec<Str>> = turns.iter().map(|turn| strs(&turn.tools)).collect();
        let flat = |(turn, tools): (&plus::turns::Turn, &Vec<Str>)| TemplateTurn {
            kind: flat_kind(turn.kind),
            text: Str::of(&turn.text),
            name: Str::of(&turn.name),
            tools: tools.as_ptr(),
            tools_count: tools.len(),
        };
        let flat: Vec<TemplateTurn> = turns.iter().zip(&tools).map(flat).collect();
        let made = self.call(|t, g, out| {
            let (kinds, turns) = ((before.as_ptr(), before.len()), (flat.as_ptr(), flat.len()));
            (t.chat_extend)(g, model.rep(), kinds.0, kinds.1, turns.0, turns.1, out)
        });
        Ok(made.map(|out| out.words))
    }
}
