//! The table of function pointers that Rust and C++ share, and the flat types that cross it.
use crate::contract::{Body, Contract, Named, Result, Type};
use crate::deviations::FLAT_BY_HAND;
use crate::rust::{formatted, HEADER};
use heck::ToSnakeCase;
use std::fmt::Write;

/// The flat type of a parameter that is made flat by hand.
pub fn by_hand(named: &Named) -> Option<&'static str> {
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
    pub fn flat(&self, ty: &Type) -> Result<String> {
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
    pub fn rust(&self, ty: &Type) -> String {
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
    pub fn flatten(&self, ty: &Type, place: &str, is_reference: bool) -> String {
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
    pub fn needs_keep(&self, ty: &Type) -> bool {
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
