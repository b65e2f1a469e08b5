//! The C++ side: the functions to implement, and the table that calls them.
use crate::contract::{Body, Contract, Function, Named, Param, Type};
use crate::deviations::CPP_BY_HAND;
use crate::table;
use std::fmt::Write;

const COLUMNS: usize = 100;

/// Declarations of all host functions, and the types that they return.
pub fn api(contract: &Contract) -> String {
    let mut text = String::from(
        "// Made by bridge/hostgen from wit/ when the bridge is built: do not edit.
//
// The host functions. Each is defined once, in src/host/api_*.cc; a function that is missing there,
// or has another signature, does not link. Each runs on its guest's thread and stack, and must not
// block. An error reaches the guest as an error where the contract has a `result<_, error>`; elsewhere
// it traps.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

",
    );
    for (_, _, header, _) in CPP_BY_HAND {
        let _ = writeln!(text, "#include \"{header}\"");
    }
    text += "#include \"base/result.h\"\n#include \"pie_bridge.h\"\n\nnamespace pie::host {\n\nclass Process;\nusing pie_bridge::Wait;\n";
    for named in contract
        .types
        .iter()
        .filter(|named| named.is_param && matches!(named.body, Body::Enum(_)))
    {
        let _ = writeln!(text, "using pie_bridge::{};  // {}", named.name, named.id);
    }
    for named in contract
        .types
        .iter()
        .filter(|named| named.is_result && by_hand(named).is_none())
    {
        text += &result_type(contract, named);
    }
    for interface in &contract.interfaces {
        let resources = interface
            .resources
            .iter()
            .map(|index| &contract.resources[*index].functions);
        let functions: Vec<&Function> = interface
            .functions
            .iter()
            .chain(resources.flatten())
            .collect();
        if functions.is_empty() {
            continue;
        }
        let _ = write!(text, "\n// --- {} ---\n\n", interface.id);
        for function in functions {
            text += &comment(&function.docs);
            let returned = match &function.result {
                Some(ty) => format!("Result<{}> ", contract.cpp(ty)),
                None => "Status ".into(),
            };
            text += &wrapped(
                &format!("{returned}{}(", function.cpp_name),
                &parameters(contract, function),
                ");",
            );
        }
    }
    text + "\n}  // namespace pie::host\n"
}

fn by_hand(named: &Named) -> Option<&'static str> {
    let found = CPP_BY_HAND.iter().find(|(id, _, _, _)| *id == named.id);
    found.map(|(_, cpp, _, _)| *cpp)
}

fn comment(docs: &str) -> String {
    docs.lines()
        .map(|line| format!("// {}\n", line.trim()))
        .collect()
}

/// `before` and then `items`, broken into lines.
fn wrapped(before: &str, items: &[String], after: &str) -> String {
    let longest = items.iter().map(|item| item.len() + after.len()).max();
    let is_wide = before.len() + longest.unwrap_or_default() > COLUMNS;
    let margin = before.len() - before.trim_start().len();
    let indent = if is_wide { margin + 4 } else { before.len() };
    let mut lines = vec![before.to_string()];
    for (i, item) in items.iter().enumerate() {
        let item = format!("{item}{}", if i + 1 < items.len() { "," } else { after });
        let line = lines.last_mut().unwrap();
        if i == 0 && !is_wide {
            *line += &item;
        } else if i > 0 && line.len() + 1 + item.len() <= COLUMNS {
            *line += &format!(" {item}");
        } else {
            lines.push(" ".repeat(indent) + &item);
        }
    }
    lines.join("\n") + "\n"
}

impl Contract {
    /// The type of a value that C++ returns.
    fn cpp(&self, ty: &Type) -> String {
        let or_void = |ty: &Option<Type>| ty.as_ref().map_or("void".into(), |ty| self.cpp(ty));
        match ty {
            Type::Plain(_, cpp) => cpp.to_string(),
            Type::Text | Type::Bytes => "std::string".into(),
            Type::Handle(_) => "uint32_t".into(),
            Type::Pollable => "const pie_bridge::Signal*".into(),
            Type::List(item) => format!("std::vector<{}>", self.cpp(item)),
            Type::Option(item) => format!("std::optional<{}>", self.cpp(item)),
            Type::Result(ok, err) => format!("std::expected<{}, {}>", or_void(ok), or_void(err)),
            Type::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|item| self.cpp(item)).collect();
                format!("std::tuple<{}>", items.join(", "))
            }
            Type::Named(index) => {
                let named = &self.types[*index];
                by_hand(named).map_or(named.name.clone(), str::to_string)
            }
        }
    }

    /// The type of a value behind a pointer, in a list or in a struct on its way to C++.
    fn cpp_flat(&self, ty: &Type) -> String {
        match ty {
            Type::Plain(_, cpp) => cpp.to_string(),
            Type::Text | Type::Bytes => "pie_bridge::Str".into(),
            Type::Handle(_) => "uint32_t".into(),
            Type::List(item) => format!("pie_bridge::List<{}>", self.cpp_flat(item)),
            Type::Option(item) => format!("const {}*", self.cpp_flat(item)),
            Type::Named(index) => {
                let named = &self.types[*index];
                format!(
                    "pie_bridge::{}",
                    table::by_hand(named).unwrap_or(&named.name)
                )
            }
            other => unreachable!("the table refuses {other:?}"),
        }
    }

    /// The type of a parameter of a host function, and the expression that makes it of the flat one.
    fn cpp_param(&self, Param { name, ty }: &Param) -> (String, String) {
        match ty {
            Type::Text | Type::Bytes => ("std::string_view".into(), format!("View({name})")),
            Type::List(item) => (
                format!("std::span<const {}>", self.cpp_flat(item)),
                format!("View({name})"),
            ),
            Type::Option(item) if matches!(**item, Type::Text | Type::Bytes) => (
                "std::optional<std::string_view>".into(),
                format!("Optional({name})"),
            ),
            Type::Option(item) => (
                format!("std::optional<{}>", self.cpp_flat(item)),
                format!("Optional({name})"),
            ),
            ty if self.by_pointer(ty) => {
                (format!("const {}&", self.cpp_flat(ty)), format!("*{name}"))
            }
            ty => (
                self.cpp_flat(ty).trim_start_matches("pie_bridge::").into(),
                name.clone(),
            ),
        }
    }
}

fn parameters(contract: &Contract, function: &Function) -> Vec<String> {
    let mut all = vec!["Process& process".to_string()];
    for param in &function.params {
        all.push(format!("{} {}", contract.cpp_param(param).0, param.name));
    }
    if function.waits {
        all.push("Wait& wait".into());
    }
    all
}

/// A record or a variant that functions return, and how it is put into a reply.
fn result_type(contract: &Contract, named: &Named) -> String {
    let Named { id, name, .. } = named;
    let mut text = format!("\n// {id}\n{}", comment(&named.docs));
    match &named.body {
        Body::Enum(_) if named.is_param => return String::new(), // the bridge's header has it
        Body::Enum(cases) => {
            let _ = writeln!(
                text,
                "enum class {name} : uint8_t {{ {} }};",
                cases.join(", ")
            );
        }
        Body::Record(fields) => {
            let _ = writeln!(text, "struct {name} {{");
            for field in fields {
                let _ = writeln!(text, "  {} {} = {{}};", contract.cpp(&field.ty), field.name);
            }
            text += "};\n";
        }
        Body::Variant(cases) => {
            let alternatives: Vec<String> = cases
                .iter()
                .map(|(case, _)| format!("{name}{case}"))
                .collect();
            for ((_, ty), alternative) in cases.iter().zip(&alternatives) {
                let _ = match ty {
                    Some(ty) => writeln!(
                        text,
                        "struct {alternative} {{\n  {} value = {{}};\n}};",
                        contract.cpp(ty)
                    ),
                    None => writeln!(text, "struct {alternative} {{}};"),
                };
            }
            text += &wrapped(
                &format!("using {name} = std::variant<"),
                &alternatives,
                ">;",
            );
        }
    }
    text
}

/// The table, and how the types of `api` are put into a reply. For one source file.
pub fn table(contract: &Contract) -> String {
    let mut text = String::from(
        "// Made by bridge/hostgen from wit/ when the bridge is built: do not edit.
//
// The table of function pointers that the bridge calls. Each entry runs one host function inside
// `Answer` (src/host/answer.h), which contains errors and exceptions.
#pragma once

#include \"host/answer.h\"
#include \"pie_host_api.h\"

namespace pie::host {

",
    );
    for named in contract
        .types
        .iter()
        .filter(|named| named.is_result && by_hand(named).is_none())
    {
        text += &put(named);
    }
    text += "inline constexpr pie_bridge::HostTable kHostTable = {\n";
    for function in contract.functions() {
        text += &entry(contract, function);
    }
    text += "};\n\n}  // namespace pie::host\n\n";
    text += "// Calls X with the name of each entry of the table, in order.\n";
    text += "#define PIE_HOST_FUNCTIONS(X)";
    for function in contract.functions() {
        text += &format!(" \\\n  X({})", function.field());
    }
    text + "\n"
}

fn put(named: &Named) -> String {
    let name = &named.name;
    let mut text = String::new();
    let one = |name: &str, fields: &[&str]| {
        let puts: String = fields
            .iter()
            .map(|field| format!("  Put(reply, value.{field});\n"))
            .collect();
        format!("inline void Put(Reply* reply, const {name}& value) {{\n{puts}}}\n")
    };
    match &named.body {
        Body::Enum(_) => return text,
        Body::Record(fields) => {
            let fields: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            text += &one(name, &fields);
        }
        Body::Variant(cases) => {
            for (case, ty) in cases {
                let case = format!("{name}{case}");
                text += &match ty {
                    Some(_) => one(&case, &["value"]),
                    None => format!("inline void Put(Reply*, const {case}&) {{}}\n"),
                };
            }
        }
    }
    text + "\n"
}

fn entry(contract: &Contract, function: &Function) -> String {
    let mut params = vec!["void* guest".to_string()];
    let mut arguments = vec!["process".to_string()];
    for param in &function.params {
        let flat = contract.cpp_flat(&param.ty);
        let pointer = contract.by_pointer(&param.ty);
        params.push(if pointer {
            format!("const {flat}* {}", param.name)
        } else {
            format!("{flat} {}", param.name)
        });
        arguments.push(contract.cpp_param(param).1);
    }
    if function.waits {
        params.push("Wait* wait".into());
        arguments.push("*wait".into());
    }
    let mut answer = vec!["guest".to_string(), "reply".into()];
    let through_pointer = function
        .result
        .as_ref()
        .is_some_and(|ty| ty.is_plain() || *ty == Type::Pollable);
    if through_pointer {
        params.push(format!(
            "{}* result",
            contract.cpp(function.result.as_ref().unwrap())
        ));
        answer.push("result".into());
    }
    params.push("Reply* reply".into());
    let mut text = wrapped(&format!("    .{} = [](", function.field()), &params, ") {");
    let call = format!(
        "[&](Process& process) {{ return {}({}); }}",
        function.cpp_name,
        arguments.join(", ")
    );
    let line = format!("      return Answer({}, {call});\n", answer.join(", "));
    if line.len() <= COLUMNS {
        text += &line;
    } else {
        let _ = writeln!(
            text,
            "      return Answer({}, [&](Process& process) {{",
            answer.join(", ")
        );
        text += &wrapped(
            &format!("        return {}(", function.cpp_name),
            &arguments,
            ");",
        );
        text += "      });\n";
    }
    text + "    },\n"
}
