//! The contract as the emitters need it, with every name chosen and every type resolved.
use crate::deviations::{BULKY, CPP_BY_HAND, FLAT_BY_HAND, LONG, LONG_ANSWERS, PREFIXES, WAITS};
use heck::ToSnakeCase;
use std::collections::HashSet;

pub type Result<T> = std::result::Result<T, String>;

pub struct Contract {
    pub interfaces: Vec<Interface>,
    pub resources: Vec<Resource>,
    /// Records, variants and enums, in an order in which each follows the types that it is made of.
    pub types: Vec<Named>,
}

pub struct Interface {
    /// Such as `pie:core/context`.
    pub id: String,
    /// Such as `pie::core::context`.
    pub rust_path: String,
    pub functions: Vec<Function>,
    /// Indices into [`Contract::resources`].
    pub resources: Vec<usize>,
}

pub struct Resource {
    /// Such as `pie:core/context.context`.
    pub id: String,
    /// The name in both languages. If another resource or interface has the same name, the interface's name precedes
    /// it.
    pub name: String,
    /// As bindgen writes it, without "Host".
    pub rust_trait: String,
    pub functions: Vec<Function>,
}

pub struct Function {
    /// As bindgen knows it, such as `pie:core/context.[method]context.save`.
    pub bindgen_id: String,
    /// As a person writes it, such as `pie:core/context.context.save`.
    pub id: String,
    pub rust_name: String,
    pub cpp_name: String,
    pub docs: String,
    pub params: Vec<Param>,
    /// Whether an error reaches the guest as an error. It traps otherwise.
    pub fallible: bool,
    pub result: Option<Type>,
    pub waits: bool,
    /// Whether the guest leaves a lent thread before the call.
    pub long: bool,
    /// Whether a guest that has waited takes the answer apart from other guests.
    pub long_answer: bool,
    /// The guest also leaves it if texts and lists are longer than this, all together.
    pub bulky: Option<usize>,
}

impl Function {
    /// The field of `HostTable`.
    pub fn field(&self) -> String {
        self.cpp_name.to_snake_case()
    }
}

pub struct Param {
    pub name: String,
    pub ty: Type,
}

/// A type with a name: a record, a variant or an enum.
pub struct Named {
    pub id: String,
    /// The name in C++ and in the table.
    pub name: String,
    /// Such as `pie::core::inference::Output`.
    pub rust_path: String,
    pub docs: String,
    pub body: Body,
    pub is_param: bool,
    pub is_result: bool,
}

pub enum Body {
    Record(Vec<Param>),
    Variant(Vec<(String, Option<Type>)>),
    Enum(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Numbers and booleans, by their names in Rust and C++.
    Plain(&'static str, &'static str),
    Text,
    Bytes,
    Handle(usize),
    Pollable,
    List(Box<Type>),
    Option(Box<Type>),
    Result(Box<Option<Type>>, Box<Option<Type>>),
    Tuple(Vec<Type>),
    Named(usize),
}

impl Type {
    /// Whether C++ returns it through a pointer. All other results go through the reply.
    pub fn is_plain(&self) -> bool {
        matches!(self, Type::Plain(..) | Type::Handle(_))
    }
}

impl Contract {
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.interfaces.iter().flat_map(|interface| {
            let of_resources = interface
                .resources
                .iter()
                .flat_map(|resource| &self.resources[*resource].functions);
            interface.functions.iter().chain(of_resources)
        })
    }

    /// Notes which types are passed to C++ and which are returned.
    pub fn mark_uses(&mut self) {
        let (mut params, mut results) = (Vec::new(), Vec::new());
        for function in self.functions() {
            params.extend(function.params.iter().map(|param| param.ty.clone()));
            results.extend(function.result.clone());
        }
        for ty in params {
            self.mark(&ty, &|named| std::mem::replace(&mut named.is_param, true));
        }
        for ty in results {
            self.mark(&ty, &|named| std::mem::replace(&mut named.is_result, true));
        }
    }

    fn mark(&mut self, ty: &Type, mark: &dyn Fn(&mut Named) -> bool) {
        let mut inner: Vec<Type> = Vec::new();
        match ty {
            Type::List(item) | Type::Option(item) => inner.push((**item).clone()),
            Type::Result(ok, err) => {
                inner.extend([ok, err].into_iter().filter_map(|t| (**t).clone()))
            }
            Type::Tuple(items) => inner.extend(items.iter().cloned()),
            Type::Named(index) if !mark(&mut self.types[*index]) => {
                match &self.types[*index].body {
                    Body::Record(fields) => {
                        inner.extend(fields.iter().map(|field| field.ty.clone()))
                    }
                    Body::Variant(cases) => {
                        inner.extend(cases.iter().filter_map(|(_, ty)| ty.clone()))
                    }
                    Body::Enum(_) => {}
                }
            }
            _ => {}
        }
        for ty in inner {
            self.mark(&ty, mark);
        }
    }

    /// Refuses two functions with the same name, and deviations for functions that do not exist.
    pub fn check(&self) -> Result<()> {
        let mut names = HashSet::new();
        for function in self.functions() {
            if !names.insert(&function.cpp_name) {
                return Err(format!(
                    "two host functions are named {}; {} is one of them: give one interface another prefix in PREFIXES",
                    function.cpp_name, function.id
                ));
            }
        }
        let known = self.functions().map(|function| &function.id);
        let known = known.chain(self.interfaces.iter().map(|interface| &interface.id));
        let known: HashSet<&String> = known
            .chain(self.types.iter().map(|named| &named.id))
            .collect();
        let listed = WAITS
            .iter()
            .chain(LONG)
            .chain(LONG_ANSWERS)
            .map(|(id, _)| id);
        let listed = listed.chain(BULKY.iter().map(|(id, _, _)| id));
        let listed = listed.chain(PREFIXES.iter().map(|(id, _, _)| id));
        let listed = listed.chain(FLAT_BY_HAND.iter().map(|(id, _, _)| id));
        for id in listed.chain(CPP_BY_HAND.iter().map(|(id, _, _, _)| id)) {
            if !known.contains(&id.to_string()) {
                return Err(format!(
                    "deviations.rs lists {id}, which wit/ does not have: remove or correct the entry"
                ));
            }
        }
        Ok(())
    }
}
