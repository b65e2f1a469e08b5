//! The one list of exceptions to the rules of this crate. Each entry says why it is here.

/// Host functions that wait. The C++ function takes a `Wait&` as its last parameter. When it sets `wait.signal`, its answer is
/// dropped, and it is called again with the same arguments once the signal has fired.
pub const WAITS: &[(&str, &str)] = &[
    (
        "pie:core/runtime.launch",
        "The program may have to be read and compiled, which another thread does.",
    ),
    (
        "pie:core/context.context.open",
        "Another thread reads the snapshot's file.",
    ),
    (
        "pie:core/context.context.take",
        "Another thread reads and removes the snapshot's file.",
    ),
    (
        "pie:core/context.context.delete",
        "Another thread removes the snapshot's file.",
    ),
    (
        "pie:core/context.context.save",
        "The snapshot is written to disk by another thread.",
    ),
    (
        "pie:core/context.context.snapshot",
        "The snapshot is written to disk by another thread.",
    ),
    (
        "pie:core/adapter.adapter.create",
        "Another thread writes the adapter's file.",
    ),
    (
        "pie:core/adapter.adapter.open",
        "Another thread reads the adapter's file.",
    ),
    (
        "pie:core/adapter.adapter.destroy",
        "Another thread removes the adapter's file.",
    ),
    (
        "pie:core/adapter.adapter.fork",
        "Another thread writes the adapter's file.",
    ),
    (
        "pie:core/adapter.adapter.load",
        "Another thread reads the files.",
    ),
    (
        "pie:core/adapter.adapter.save",
        "Another thread writes the files.",
    ),
    (
        "pie:plus/adapters.export-files",
        "Another thread makes the files.",
    ),
    (
        "pie:plus/adapters.import-files",
        "Another thread reads the files.",
    ),
    (
        "pie:plus/adapters.open",
        "Another thread reads the adapter's file.",
    ),
    (
        "pie:plus/adapters.fork",
        "Another thread writes the adapter's file.",
    ),
    (
        "pie:plus/adapters.destroy",
        "Another thread removes the adapter's file.",
    ),
    (
        "pie:plus/adapters.names",
        "Another thread reads the folder of adapters.",
    ),
    (
        "pie:zo/zo.initialize",
        "Another thread makes the weights and writes them.",
    ),
    ("pie:zo/zo.update", "Another thread changes the weights."),
    (
        "pie:core/session.send",
        "A client that reads slowly holds back the inferlet.",
    ),
    (
        "pie:core/session.send-file",
        "A client that reads slowly holds back the inferlet.",
    ),
    (
        "pie:plus/fallible.send",
        "A client that reads slowly holds back the inferlet.",
    ),
    (
        "pie:plus/fallible.send-file",
        "A client that reads slowly holds back the inferlet.",
    ),
    (
        "pie:core/inference.grammar.from-json-schema",
        "Another thread checks the source.",
    ),
    (
        "pie:core/inference.grammar.from-regex",
        "Another thread checks the source.",
    ),
    (
        "pie:core/inference.grammar.from-ebnf",
        "Another thread checks the source.",
    ),
    (
        "pie:core/inference.matcher.new",
        "Another thread compiles the grammar.",
    ),
    (
        "pie:plus/fallible.create-matcher",
        "Another thread compiles the grammar.",
    ),
    (
        "pie:instruct/tool-use.format",
        "Another thread makes the grammar.",
    ),
    (
        "pie:instruct/tool-use.create-matcher",
        "Another thread compiles the grammar.",
    ),
    (
        "pie:plus/fallible.create-tool-grammar",
        "Another thread makes the grammar.",
    ),
    (
        "pie:plus/fallible.create-tool-matcher",
        "Another thread compiles the grammar.",
    ),
    (
        "pie:plus/steps.finish",
        "The device has to run the pass first.",
    ),
    (
        "pie:plus/steps.repeat",
        "The device has to run the pass first.",
    ),
    (
        "pie:mcp/client.session.list-tools",
        "The MCP server is another program, often on another machine.",
    ),
    (
        "pie:mcp/client.session.call-tool",
        "The MCP server is another program, often on another machine.",
    ),
    (
        "pie:mcp/client.session.list-resources",
        "The MCP server is another program, often on another machine.",
    ),
    (
        "pie:mcp/client.session.read-resource",
        "The MCP server is another program, often on another machine.",
    ),
    (
        "pie:mcp/client.session.list-prompts",
        "The MCP server is another program, often on another machine.",
    ),
    (
        "pie:mcp/client.session.get-prompt",
        "The MCP server is another program, often on another machine.",
    ),
];

/// Host functions that may take more than 100 µs, depending on their arguments. A guest that runs on a lent thread moves to a
/// thread of the executor before such a call, so that no device waits for it.
pub const LONG: &[(&str, &str)] = &[
    ("pie:core/model.tokenizer.encode", "The text may be long."),
    ("pie:plus/fallible.encode", "The text may be long."),
    (
        "pie:core/model.tokenizer.decode",
        "There may be many tokens.",
    ),
    (
        "pie:core/model.tokenizer.vocabs",
        "The result is as large as the vocabulary.",
    ),
    (
        "pie:instruct/chat.system",
        "Runs the template, on a text that may be long.",
    ),
    (
        "pie:instruct/chat.user",
        "Runs the template, on a text that may be long.",
    ),
    (
        "pie:instruct/chat.assistant",
        "Runs the template, on a text that may be long.",
    ),
    ("pie:instruct/chat.cue", "Runs the template."),
    (
        "pie:instruct/tool-use.equip",
        "Runs the template, on texts that may be long.",
    ),
    (
        "pie:instruct/tool-use.answer",
        "Runs the template, on a text that may be long.",
    ),
    (
        "pie:plus/turns.extend",
        "Runs the template, on texts that may be long.",
    ),
    ("pie:plus/templates.set-option", "Runs the template."),
    (
        "pie:plus/adapters.import-files",
        "The files are copied, and may be large.",
    ),
    (
        "pie:core/inference.matcher.next-token-logit-mask",
        "A grammar can be expensive, and a vocabulary large.",
    ),
    (
        "pie:core/inference.matcher.accept-tokens",
        "A grammar can be expensive, also for one token.",
    ),
    (
        "pie:core/inference.matcher.is-terminated",
        "The matcher first accepts what a chain has given.",
    ),
    (
        "pie:core/inference.matcher.reset",
        "All tokens are taken back, and may be many.",
    ),
    (
        "pie:plus/constraints.constrain",
        "The text is copied, and may be long.",
    ),
    (
        "pie:plus/constraints.rollback",
        "The matcher first accepts what a chain has given.",
    ),
    (
        "pie:plus/constraints.forced-tokens",
        "A grammar can be expensive.",
    ),
    (
        "pie:plus/constraints.fork",
        "The text is copied, and may be long.",
    ),
];

/// Host functions of [`WAITS`] whose answers may be so long that it takes milliseconds to check and copy them. The guest takes
/// its answer on a thread of its user.
pub const LONG_ANSWERS: &[(&str, &str)] = &[
    (
        "pie:mcp/client.session.list-tools",
        "The answer is checked to be JSON.",
    ),
    (
        "pie:mcp/client.session.call-tool",
        "The answer is checked to be JSON.",
    ),
    (
        "pie:mcp/client.session.list-resources",
        "The answer is checked to be JSON.",
    ),
    (
        "pie:mcp/client.session.read-resource",
        "The answer is checked to be JSON.",
    ),
    (
        "pie:mcp/client.session.list-prompts",
        "The answer is checked to be JSON.",
    ),
    (
        "pie:mcp/client.session.get-prompt",
        "The answer is checked to be JSON.",
    ),
];

/// Host functions that are short, unless their texts and lists are longer than the number, all together.
pub const BULKY: &[(&str, usize, &str)] = &[
    (
        "pie:core/inference.forward-pass.input-tokens",
        8_192,
        "The tokens are copied.",
    ),
    (
        "pie:core/inference.forward-pass.attention-mask",
        256,
        "The masks are copied one by one.",
    ),
    (
        "pie:core/inference.forward-pass.logit-mask",
        8_192,
        "The mask is copied.",
    ),
    (
        "pie:instruct/chat.decoder.feed",
        64,
        "Each token is decoded.",
    ),
    (
        "pie:instruct/reasoning.decoder.feed",
        64,
        "Each token is decoded.",
    ),
    (
        "pie:instruct/tool-use.decoder.feed",
        64,
        "Each token is decoded.",
    ),
    ("pie:core/messaging.push", 32_768, "The message is copied."),
    (
        "pie:core/messaging.broadcast",
        32_768,
        "The message is copied.",
    ),
    ("pie:plus/fallible.push", 32_768, "The message is copied."),
    (
        "pie:plus/fallible.broadcast",
        32_768,
        "The message is copied.",
    ),
    ("pie:core/session.send", 32_768, "The message is copied."),
    ("pie:core/session.send-file", 32_768, "The file is copied."),
    ("pie:plus/fallible.send", 32_768, "The message is copied."),
    ("pie:plus/fallible.send-file", 32_768, "The file is copied."),
    ("pie:core/runtime.launch", 32_768, "The input is copied."),
    (
        "pie:plus/steps.begin",
        8_192,
        "The tokens and the mask are copied.",
    ),
    (
        "pie:mcp/client.session.call-tool",
        2_048,
        "The arguments are parsed.",
    ),
    (
        "pie:mcp/client.session.get-prompt",
        2_048,
        "The arguments are parsed.",
    ),
];

/// Interfaces whose own name says too little in C++. Names of functions and types begin with the second name instead.
pub const PREFIXES: &[(&str, &str, &str)] = &[
    (
        "pie:mcp/client",
        "mcp",
        "In this engine, \"Client\" means the client of a process.",
    ),
    (
        "pie:mcp/types",
        "mcp",
        "\"Types\" says nothing; pie:core has an interface of that name too.",
    ),
];

/// Types of parameters that `bridge/src/host/by_hand.rs` makes flat. The second name is the flat type and, in snake case, the
/// function that makes it.
pub const FLAT_BY_HAND: &[(&str, &str, &str)] = &[(
    "pie:core/inference.sampler",
    "Sampler",
    "Eleven cases share five fields, so a struct of these is clearer than a variant.",
)];

/// Types of results that are C++ types of the engine. C++ has a `Put` overload for each.
pub const CPP_BY_HAND: &[(&str, &str, &str, &str)] = &[(
    "pie:core/inference.slot-output",
    "Slot",
    "backend/batch.h",
    "The device makes them. Logits would be copied once more on their way through a generated type.",
)];
