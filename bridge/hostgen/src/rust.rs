//! The Rust side: the table of function pointers, and the traits of bindgen on top of it.
use crate::contract::{Body, Contract, Function, Named, Param, Result, Type};
use crate::deviations::FLAT_BY_HAND;
use heck::ToSnakeCase;
use std::fmt::Write;

const HEADER: &str = "// Made by bridge/hostgen from wit/ when the bridge is built: do not edit.\n";

fn formatted(source: &str) -> Result<String> {
    let file =
        syn::parse_file(source).map_err(|e| format!("the generated Rust does not parse: {e}"))?;
    Ok(prettyplease::unparse(&file))
}

/// The flat type of a by-hand parameter.
fn by_hand(named: &Named) -> Option<&'static str> {
    let found = FLAT_BY_HAND.iter().find(|(id, _, _)| *id == named.id);
    found.map(|(_, flat, _)| *flat)
}

/// The types and function pointers that both languages see.
pub fn table(contract: &Contract) -> Result<String> {
    let mut fields = String::new();
    for function in contract.functions() {
        let mut params = vec!["guest: GuestPtr".to_string()];
        for param in &function.params {
            let ty = contract.flat_param(&param.ty);
            let ty = ty.map_err(|e| format!("{}: parameter {}: {e}", function.id, param.name))?;
            params.push(format!("{}: {ty}", param.name));
        }
        if function.waits {
            params.push("wait: *mut Wait".into());
        }
        match &function.result {
            Some(ty) if ty.is_plain() => {
                params.push(format!("result: *mut {}", contract.flat(ty)?))
            }
            Some(Type::Pollable) => params.push("result: *mut *const Signal".into()),
            _ => {}
        }
        params.push("reply: *mut Reply".into());
        let (id, field) = (&function.id, function.field());
        let _ = writeln!(
            fields,
            "/// `{id}`\npub {field}: extern \"C\" fn({}) -> bool,",
            params.join(", ")
        );
    }
    let types: Result<String> = contract
        .types
        .iter()
        .map(|named| flat_type(contract, named))
        .collect();
    let source = format!(
        "use super::by_hand::*;
        use super::reply::Reply;
        use super::call::Wait;
        use crate::abi::{{GuestPtr, List, Str}};
        use crate::wasm::Signal;
        {}
        /// One function of C++ for each function of the contract. It returns whether it succeeded. If it did not, the reply
        /// holds the error's text.
        #[repr(C)]
        pub struct HostTable {{ {fields} }}",
        types?
    );
    Ok(format!("{HEADER}{}", formatted(&source)?))
}

/// A record or an enum as C++ gets it.
fn flat_type(contract: &Contract, named: &Named) -> Result<String> {
    let Named { id, name, .. } = named;
    match &named.body {
        Body::Enum(cases) if named.is_param => Ok(format!(
            "/// `{id}`\n#[repr(u8)] #[derive(Clone, Copy)] pub enum {name} {{ {} }}",
            cases.join(", ")
        )),
        Body::Record(fields) if named.is_param => {
            let fields: Result<Vec<String>> = fields
                .iter()
                .map(|field| Ok(format!("pub {}: {}", field.name, contract.flat(&field.ty)?)))
                .collect();
            let fields = fields.map_err(|e| format!("{id}: {e}"))?;
            Ok(format!(
                "/// `{id}`\n#[repr(C)] pub struct {name} {{ {} }}",
                fields.join(", ")
            ))
        }
        _ => Ok(String::new()),
    }
}

impl Contract {
    /// The type of a value on its way to C++.
    fn flat(&self, ty: &Type) -> Result<String> {
        Ok(match ty {
            Type::Plain(rust, _) => rust.to_string(),
            Type::Text | Type::Bytes => "Str".into(),
            Type::Handle(_) => "u32".into(),
            Type::List(item) => format!("List<{}>", self.flat(item)?),
            Type::Option(item) => format!("*const {}", self.flat(item)?),
            Type::Named(index) => {
                let named = &self.types[*index];
                match (by_hand(named), &named.body) {
                    (Some(flat), _) => flat.into(),
                    (None, Body::Variant(_)) => {
                        return Err(format!(
                            "{} is a variant: make it flat by hand, and list it in FLAT_BY_HAND",
                            named.id
                        ))
                    }
                    _ => named.name.clone(),
                }
            }
            other => return Err(format!("{other:?} cannot be passed to C++")),
        })
    }

    fn flat_param(&self, ty: &Type) -> Result<String> {
        let flat = self.flat(ty)?;
        Ok(if self.by_pointer(ty) {
            format!("*const {flat}")
        } else {
            flat
        })
    }

    /// Structs cross as pointers.
    pub fn by_pointer(&self, ty: &Type) -> bool {
        matches!(ty, Type::Named(index) if !matches!(self.types[*index].body, Body::Enum(_)))
    }

    /// The type of bindgen.
    fn rust(&self, ty: &Type) -> String {
        let or_unit = |ty: &Option<Type>| ty.as_ref().map_or("()".into(), |ty| self.rust(ty));
        match ty {
            Type::Plain(rust, _) => rust.to_string(),
            Type::Text => "String".into(),
            Type::Bytes => "Vec<u8>".into(),
            Type::Handle(index) => format!("Resource<handles::{}>", self.resources[*index].name),
            Type::Pollable => "Resource<DynPollable>".into(),
            Type::List(item) => format!("Vec<{}>", self.rust(item)),
            Type::Option(item) => format!("Option<{}>", self.rust(item)),
            Type::Result(ok, err) => {
                format!("std::result::Result<{}, {}>", or_unit(ok), or_unit(err))
            }
            Type::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|item| self.rust(item)).collect();
                format!("({},)", items.join(", "))
            }
            Type::Named(index) => self.types[*index].rust_path.clone(),
        }
    }

    /// The expression that makes a value flat. `place` is what holds it, or a reference to that.
    fn flatten(&self, ty: &Type, place: &str, is_reference: bool) -> String {
        let reference = if is_reference {
            place.to_string()
        } else {
            format!("&{place}")
        };
        let value = if is_reference {
            format!("*{place}")
        } else {
            place.to_string()
        };
        match ty {
            Type::Plain(..) => value,
            Type::Text => format!("Str::of({reference})"),
            Type::Bytes => format!("Str::bytes({reference})"),
            Type::Handle(_) => format!("{place}.rep()"),
            Type::List(item) if matches!(**item, Type::Plain(..)) => {
                format!("List::of({reference})")
            }
            Type::List(item) => {
                format!(
                    "keep.list({place}.iter().map(|item| {}))",
                    self.flatten(item, "item", true)
                )
            }
            Type::Option(item) => {
                format!(
                    "keep.option({place}.as_ref().map(|item| {}))",
                    self.flatten(item, "item", true)
                )
            }
            Type::Named(index) => {
                let named = &self.types[*index];
                match (by_hand(named), &named.body) {
                    (Some(flat), _) => format!("by_hand::{}({reference})", flat.to_snake_case()),
                    (None, Body::Enum(_)) => format!("{}::from({value})", named.name),
                    _ => format!("flat_{}({reference}, &keep)", named.name.to_snake_case()),
                }
            }
            other => unreachable!("`flat` refuses {other:?}"),
        }
    }

    /// Whether the flat form has parts that have to be kept during the call.
    fn needs_keep(&self, ty: &Type) -> bool {
        match ty {
            Type::List(item) => !matches!(**item, Type::Plain(..)),
            Type::Option(_) => true,
            Type::Named(index) => {
                let named = &self.types[*index];
                by_hand(named).is_none() && matches!(named.body, Body::Record(_))
            }
            _ => false,
        }
    }
}

/// What bindgen makes of the contract, and its traits in terms of the table.
pub fn calls(contract: &Contract) -> Result<String> {
    let mut source = String::from(
        "use super::by_hand;
        use super::call::{own, trap, Wait};
        use super::keep::{optional, Keep};
        use super::reply::{unknown_case, Reader, Take};
        use super::table::*;
        use crate::abi::{List, Str};
        use crate::wasm::Guest;
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
    for function in contract.functions().filter(|function| function.waits) {
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
        let body = format!(
            "let mut wait = Wait::default();
            loop {{
                let answer = {{ {call} }};
                match wait.signal() {{
                    Some(signal) => signal.fired().await,
                    None => return answer,
                }}
            }}"
        );
        ("async fn", body)
    } else {
        ("fn", answer(contract, function))
    };
    let (name, params) = (&function.rust_name, params.join(", "));
    format!("{keyword} {name}({params}) -> Result<{returned}> {{ {body} }}\n")
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
