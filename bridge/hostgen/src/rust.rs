//! The Rust side: the traits of wasmtime's bindgen, implemented by calls through the table.
use crate::contract::{Body, Contract, Function, Named, Param, Result, Type};
use crate::table::by_hand;
use heck::ToSnakeCase;
use std::fmt::Write;

pub const HEADER: &str =
    "// Made by bridge/hostgen from wit/ when the bridge is built: do not edit.\n";

/// Formats Rust.
pub fn formatted(source: &str) -> Result<String> {
    let file =
        syn::parse_file(source).map_err(|e| format!("the generated Rust does not parse: {e}"))?;
    Ok(prettyplease::unparse(&file))
}

/// The call of bindgen for the contract, and its traits in terms of the table.
pub fn calls(contract: &Contract) -> Result<String> {
    let mut source = String::from(
        "use super::by_hand;
        use super::call::{own, trap, Wait};
        use super::keep::{optional, Keep};
        use super::reply::{unknown_case, Reader, Take};
        use super::table::*;
        use crate::abi::{List, Str};
        use crate::wasm::{go_apart, leave_lent_thread, Guest};
        use wasmtime::component::{HasSelf, Linker, Resource};
        use wasmtime::Result;
        use wasmtime_wasi::p2::DynPollable;
        pub use bindings::pie;
        /// Types that stand for C++ objects: the rep of a resource is the C++ handle.
        pub mod handles {",
    );
    for resource in &contract.resources {
        let _ = writeln!(
            source,
            "/// `{}`\npub struct {};",
            resource.id, resource.name
        );
    }
    source += "}\n/// Links every interface of ours. WASI is linked elsewhere.
        pub fn add_to_linker(linker: &mut Linker<Guest>) -> Result<()> {";
    for interface in &contract.interfaces {
        let path = &interface.rust_path;
        let _ = writeln!(
            source,
            "{path}::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;"
        );
    }
    source += "Ok(()) }\n";
    for interface in &contract.interfaces {
        let path = &interface.rust_path;
        source += &implementation(contract, &format!("{path}::Host"), &interface.functions);
        for index in &interface.resources {
            let resource = &contract.resources[*index];
            let name = format!("{path}::Host{}", resource.rust_trait);
            source += &implementation(contract, &name, &resource.functions);
        }
    }
    for named in &contract.types {
        source += &conversions(contract, named);
    }
    Ok(format!(
        "{HEADER}{}\n{}",
        bindgen(contract),
        formatted(&source)?
    ))
}

fn bindgen(contract: &Contract) -> String {
    let mut text = String::from(
        "mod bindings {
    wasmtime::component::bindgen!({
        path: \"../wit\",
        world: \"pie:inferlet/imports\",
        imports: {
",
    );
    let leaves = |f: &&Function| f.waits || f.long || f.bulky.is_some();
    for function in contract.functions().filter(leaves) {
        let _ = writeln!(
            text,
            "            \"{}\": async | trappable,",
            function.bindgen_id
        );
    }
    text += "            default: trappable,
        },
        exports: { default: async },
        with: {
            \"wasi:io/poll\": wasmtime_wasi::p2::bindings::io::poll,
            \"wasi:clocks/monotonic-clock\": wasmtime_wasi::p2::bindings::clocks::monotonic_clock,
";
    for resource in &contract.resources {
        let _ = writeln!(
            text,
            "            \"{}\": super::handles::{},",
            resource.id, resource.name
        );
    }
    text + "        },\n    });\n}\n"
}

fn implementation(contract: &Contract, name: &str, functions: &[Function]) -> String {
    let methods: String = functions
        .iter()
        .map(|function| method(contract, function))
        .collect();
    format!("impl {name} for Guest {{ {methods} }}\n")
}

fn method(contract: &Contract, function: &Function) -> String {
    let mut params = vec!["&mut self".to_string()];
    let with_type = |param: &Param| format!("{}: {}", param.name, contract.rust(&param.ty));
    params.extend(function.params.iter().map(with_type));
    let result = function.result.as_ref();
    let mut returned = result.map_or("()".into(), |ty| contract.rust(ty));
    if function.fallible {
        returned = format!("std::result::Result<{returned}, String>");
    }
    let (keyword, body) = if function.waits {
        let call = answer(contract, function);
        let leaves = leaving(function);
        let apart = match function.long_answer {
            true => "go_apart().await;",
            false => "",
        };
        let body = format!(
            "{leaves} let mut wait = Wait::default();
            loop {{
                let answer = {{ {call} }};
                match wait.signal() {{
                    Some(signal) => {{ signal.fired().await; {apart} }}
                    None => return answer,
                }}
            }}"
        );
        ("async fn", body)
    } else if function.long || function.bulky.is_some() {
        let (leaves, call) = (leaving(function), answer(contract, function));
        ("async fn", format!("{leaves} {call}"))
    } else {
        ("fn", answer(contract, function))
    };
    let (name, params) = (&function.rust_name, params.join(", "));
    format!("{keyword} {name}({params}) -> Result<{returned}> {{ {body} }}\n")
}

/// Texts and lists that are longer than this, all together, make a call take many milliseconds. Nothing interrupts it.
const MANY: usize = 16_384;

/// A statement that moves the guest away from a lent thread if the call may take long, and apart from others if it may take
/// very long.
fn leaving(function: &Function) -> String {
    if !function.long && function.bulky.is_none() {
        return String::new();
    }
    let has_length = |param: &&Param| matches!(param.ty, Type::Text | Type::Bytes | Type::List(_));
    let with_length: Vec<&Param> = function.params.iter().filter(has_length).collect();
    // The length of a list of texts does not bound the length of the texts.
    let nested = |param: &&Param| match &param.ty {
        Type::List(item) => !matches!(**item, Type::Plain(..)),
        _ => false,
    };
    if function.long && with_length.iter().any(nested) {
        return "go_apart().await;".into();
    }
    let lengths: Vec<String> = with_length
        .iter()
        .map(|param| format!("{}.len()", param.name))
        .collect();
    let length = lengths.join(" + ");
    match function.bulky {
        None if lengths.is_empty() => "leave_lent_thread().await;".into(),
        None => format!(
            "if {length} > {MANY} {{ go_apart().await; }} else {{ leave_lent_thread().await; }}"
        ),
        Some(most) => format!(
            "if {length} > {} {{ go_apart().await; }} else if {length} > {most} {{ leave_lent_thread().await; }}",
            MANY.max(most)
        ),
    }
}

/// Statements that call C++ once and give its answer.
fn answer(contract: &Contract, function: &Function) -> String {
    let mut before = String::new();
    let mut arguments = vec!["host.guest".to_string()];
    let needs_keep = |param: &Param| match &param.ty {
        Type::Option(item) => contract.needs_keep(item), // the option itself is a local variable
        ty => contract.needs_keep(ty),
    };
    if function.params.iter().any(needs_keep) {
        before += "let keep = Keep::default();";
    }
    for Param { name, ty } in &function.params {
        match ty {
            Type::Option(item) if matches!(**item, Type::Plain(..)) => {
                arguments.push(format!("optional(&{name})"));
            }
            Type::Option(item) => {
                let flat = contract.flatten(item, "item", true);
                let _ = write!(before, "let {name} = {name}.as_ref().map(|item| {flat});");
                arguments.push(format!("optional(&{name})"));
            }
            ty => {
                let flat = contract.flatten(ty, name, false);
                arguments.push(if contract.by_pointer(ty) {
                    format!("&{flat}")
                } else {
                    flat
                });
            }
        }
    }
    if function.waits {
        arguments.push("&mut wait".into());
    }
    let result = function.result.as_ref();
    let (helper, parameter, convert) = match result {
        None => ("value", "(),", ""),
        Some(Type::Pollable) => ("pollable", "result,", ""),
        Some(Type::Handle(_)) => ("value", "result,", ".map(own)"),
        Some(ty) if ty.is_plain() => ("value", "result,", ""),
        Some(_) => ("reply", "", ""),
    };
    if parameter == "result," {
        arguments.push("result".into());
    }
    arguments.push("reply".into());
    let (field, arguments) = (function.field(), arguments.join(", "));
    let call = format!(
        "self.{helper}(|host, {parameter} reply| (host.table.{field})({arguments})){convert}"
    );
    match (helper, function.fallible) {
        ("pollable", _) => format!("{before} {call}"),
        (_, true) => format!("{before} Ok({call})"),
        (_, false) => format!("{before} trap({call})"),
    }
}

/// How a named type is made flat, and how it is read from a reply.
fn conversions(contract: &Contract, named: &Named) -> String {
    let Named {
        id,
        name,
        rust_path,
        ..
    } = named;
    let mut text = String::new();
    if named.is_param && by_hand(named).is_none() {
        text += &match &named.body {
            Body::Enum(cases) => {
                let arms: String = cases
                    .iter()
                    .map(|case| format!("{rust_path}::{case} => {name}::{case},"))
                    .collect();
                format!("impl From<{rust_path}> for {name} {{ fn from(case: {rust_path}) -> Self {{ match case {{ {arms} }} }} }}\n")
            }
            Body::Record(fields) => {
                let fields: String = fields
                    .iter()
                    .map(|field| {
                        let place = format!("record.{}", field.name);
                        format!(
                            "{}: {},",
                            field.name,
                            contract.flatten(&field.ty, &place, false)
                        )
                    })
                    .collect();
                let function = format!("flat_{}", name.to_snake_case());
                format!("fn {function}(record: &{rust_path}, keep: &Keep) -> {name} {{ {name} {{ {fields} }} }}\n")
            }
            Body::Variant(_) => unreachable!("`flat` refuses variants"),
        };
    }
    if named.is_result {
        let body = match &named.body {
            Body::Record(fields) => {
                let fields: String = fields
                    .iter()
                    .map(|field| format!("{}: from.take(),", field.name))
                    .collect();
                format!("Self {{ {fields} }}")
            }
            Body::Variant(cases) => {
                let arm = |(number, (case, ty)): (usize, &(String, Option<Type>))| {
                    let payload = if ty.is_some() { "(from.take())" } else { "" };
                    format!("{number} => Self::{case}{payload},")
                };
                let arms: String = cases.iter().enumerate().map(arm).collect();
                format!("match from.number() {{ {arms} other => unknown_case(\"{id}\", other) }}")
            }
            Body::Enum(cases) => {
                let arm = |(number, case)| format!("{number} => Self::{case},");
                let arms: String = cases.iter().enumerate().map(arm).collect();
                format!("match from.number() {{ {arms} other => unknown_case(\"{id}\", other) }}")
            }
        };
        let _ = writeln!(
            text,
            "impl Take for {rust_path} {{ fn take(from: &mut Reader<'_>) -> Self {{ {body} }} }}"
        );
    }
    text
}
