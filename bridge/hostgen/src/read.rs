//! Reads `wit/` into a [`Contract`].
use crate::contract::{Body, Contract, Function, Interface, Named, Param, Resource, Result, Type};
use crate::deviations::{BULKY, LONG, LONG_ANSWERS, PREFIXES, WAITS};
use heck::{ToSnakeCase, ToUpperCamelCase};
use std::collections::HashMap;
use std::path::Path;
use wit_parser::{
    FunctionKind, Handle, InterfaceId, Resolve, Type as WitType, TypeDefKind, TypeId, TypeOwner,
    WorldItem,
};

/// The contract in the folder `wit`. An error names the function or type that cannot be translated.
pub fn read(wit: &Path) -> Result<Contract> {
    let mut resolve = Resolve::default();
    let pushed = resolve.push_dir(wit);
    let (package, _) = pushed.map_err(|e| format!("{}: {e:#}", wit.display()))?;
    let world = resolve.select_world(&[package], Some("imports"));
    let world = world.map_err(|e| format!("{}: {e:#}", wit.display()))?;
    let imports = resolve.worlds[world].imports.values();
    let interfaces: Vec<InterfaceId> = imports
        .filter_map(|item| match item {
            WorldItem::Interface { id, .. } => Some(*id),
            _ => None,
        })
        .filter(|id| id_of(&resolve, *id).starts_with("pie:"))
        .collect();
    let mut reader = Reader {
        resolve: &resolve,
        contract: Contract {
            interfaces: Vec::new(),
            resources: Vec::new(),
            types: Vec::new(),
        },
        resources: HashMap::new(),
        types: HashMap::new(),
    };
    reader.name_resources(&interfaces);
    for id in &interfaces {
        reader.read_interface(*id)?;
    }
    for (index, resource) in reader.contract.resources.iter_mut().enumerate() {
        resource.functions.push(drop_of(index, resource));
    }
    reader.contract.mark_uses();
    reader.contract.check()?;
    Ok(reader.contract)
}

fn id_of(resolve: &Resolve, interface: InterfaceId) -> String {
    resolve.id_of(interface).expect("interfaces have names")
}

/// The word that names of an interface's functions begin with in C++.
fn prefix(id: &str) -> String {
    let known = PREFIXES.iter().find(|(of, _, _)| *of == id);
    let name = known.map_or_else(|| id.rsplit('/').next().unwrap(), |(_, name, _)| name);
    name.to_upper_camel_case()
}

/// Methods that bindgen requires besides the functions of the contract.
fn drop_of(index: usize, resource: &Resource) -> Function {
    Function {
        bindgen_id: format!("{}.[resource-drop]", resource.id),
        id: format!("{}.drop", resource.id),
        rust_name: "drop".into(),
        cpp_name: resource.name.clone() + "Drop",
        docs: "The guest has dropped its handle.".into(),
        params: vec![Param {
            name: identifier(&resource.name),
            ty: Type::Handle(index),
        }],
        fallible: false,
        result: None,
        waits: false,
        long: false,
        long_answer: false,
        bulky: None,
    }
}

struct Reader<'a> {
    resolve: &'a Resolve,
    contract: Contract,
    resources: HashMap<TypeId, usize>,
    types: HashMap<TypeId, usize>,
}

impl Reader<'_> {
    fn name_resources(&mut self, interfaces: &[InterfaceId]) {
        let mut found = Vec::new();
        for id in interfaces {
            for (name, ty) in &self.resolve.interfaces[*id].types {
                if matches!(self.resolve.types[*ty].kind, TypeDefKind::Resource) {
                    found.push((*id, name, *ty));
                }
            }
        }
        for (interface, name, ty) in &found {
            let id = id_of(self.resolve, *interface);
            let shared = found.iter().any(|(_, other, t)| other == name && t != ty)
                || interfaces.iter().any(|other| {
                    other != interface
                        && prefix(&id_of(self.resolve, *other)) == name.to_upper_camel_case()
                });
            let camel = name.to_upper_camel_case();
            self.resources.insert(*ty, self.contract.resources.len());
            self.contract.resources.push(Resource {
                id: format!("{id}.{name}"),
                name: if shared {
                    prefix(&id) + &camel
                } else {
                    camel.clone()
                },
                rust_trait: camel,
                functions: Vec::new(),
            });
        }
    }

    fn read_interface(&mut self, interface: InterfaceId) -> Result<()> {
        let id = id_of(self.resolve, interface);
        let mut read = Interface {
            rust_path: rust_path(&id),
            functions: Vec::new(),
            resources: Vec::new(),
            id,
        };
        for ty in self.resolve.interfaces[interface].types.values() {
            if let (Some(resource), TypeDefKind::Resource) =
                (self.resources.get(ty), &self.resolve.types[*ty].kind)
            {
                read.resources.push(*resource);
            }
        }
        for function in self.resolve.interfaces[interface].functions.values() {
            let (owner, function) = self.read_function(&read.id, function)?;
            match owner {
                Some(resource) => self.contract.resources[resource].functions.push(function),
                None => read.functions.push(function),
            }
        }
        self.contract.interfaces.push(read);
        Ok(())
    }

    fn read_function(
        &mut self,
        interface: &str,
        function: &wit_parser::Function,
    ) -> Result<(Option<usize>, Function)> {
        let bindgen_id = format!("{interface}.{}", function.name);
        let (owner, name) = match &function.kind {
            FunctionKind::Freestanding => (None, function.name.as_str()),
            FunctionKind::Method(ty) | FunctionKind::Static(ty) => {
                (Some(self.resources[ty]), function.item_name())
            }
            FunctionKind::Constructor(ty) => (Some(self.resources[ty]), "new"),
            _ => {
                return Err(format!(
                    "{bindgen_id}: `async` functions are not supported; list the function in WAITS instead"
                ))
            }
        };
        let owner_name = match owner {
            Some(resource) => self.contract.resources[resource].name.clone(),
            None => prefix(interface),
        };
        let id = match owner {
            Some(resource) => format!("{}.{name}", self.contract.resources[resource].id),
            None => format!("{interface}.{name}"),
        };
        let mut params = Vec::new();
        for param in &function.params {
            let is_self = param.name == "self";
            params.push(Param {
                name: identifier(if is_self { &owner_name } else { &param.name }),
                ty: self
                    .read_type(&param.ty)
                    .map_err(|e| format!("{id}: {e}"))?,
            });
        }
        let returned = function.result.as_ref();
        let returned = returned.map(|ty| self.read_type(ty)).transpose();
        let (fallible, result) = match returned.map_err(|e| format!("{id}: {e}"))? {
            Some(Type::Result(ok, err)) if *err == Some(Type::Text) => (true, *ok),
            other => (false, other),
        };
        let read = Function {
            rust_name: rust_identifier(name),
            cpp_name: owner_name + &name.to_upper_camel_case(),
            docs: function.docs.contents.clone().unwrap_or_default(),
            waits: WAITS.iter().any(|(waits, _)| *waits == id),
            long: LONG.iter().any(|(long, _)| *long == id),
            long_answer: LONG_ANSWERS.iter().any(|(long, _)| *long == id),
            bulky: BULKY
                .iter()
                .find(|(bulky, _, _)| *bulky == id)
                .map(|(_, most, _)| *most),
            bindgen_id,
            id,
            params,
            fallible,
            result,
        };
        Ok((owner, read))
    }

    fn read_type(&mut self, ty: &WitType) -> Result<Type> {
        Ok(match ty {
            WitType::Bool => Type::Plain("bool", "bool"),
            WitType::U8 => Type::Plain("u8", "uint8_t"),
            WitType::U16 => Type::Plain("u16", "uint16_t"),
            WitType::U32 => Type::Plain("u32", "uint32_t"),
            WitType::U64 => Type::Plain("u64", "uint64_t"),
            WitType::S8 => Type::Plain("i8", "int8_t"),
            WitType::S16 => Type::Plain("i16", "int16_t"),
            WitType::S32 => Type::Plain("i32", "int32_t"),
            WitType::S64 => Type::Plain("i64", "int64_t"),
            WitType::F32 => Type::Plain("f32", "float"),
            WitType::F64 => Type::Plain("f64", "double"),
            WitType::String => Type::Text,
            WitType::Id(id) => return self.read_defined(*id),
            other => return Err(format!("the type {other:?} is not supported")),
        })
    }

    fn read_defined(&mut self, id: TypeId) -> Result<Type> {
        let definition = &self.resolve.types[id];
        let boxed = |ty: Result<Type>| ty.map(Box::new);
        Ok(match &definition.kind {
            TypeDefKind::Type(ty) => self.read_type(ty)?,
            TypeDefKind::Resource => self.read_resource(id)?,
            TypeDefKind::Handle(Handle::Own(ty) | Handle::Borrow(ty)) => self.read_defined(*ty)?,
            TypeDefKind::List(WitType::U8) => Type::Bytes,
            TypeDefKind::List(ty) => Type::List(boxed(self.read_type(ty))?),
            TypeDefKind::Option(ty) => Type::Option(boxed(self.read_type(ty))?),
            TypeDefKind::Result(ty) => {
                let ok = ty.ok.as_ref().map(|ty| self.read_type(ty)).transpose()?;
                let err = ty.err.as_ref().map(|ty| self.read_type(ty)).transpose()?;
                Type::Result(Box::new(ok), Box::new(err))
            }
            TypeDefKind::Tuple(tuple) => {
                let types = tuple.types.iter().map(|ty| self.read_type(ty));
                Type::Tuple(types.collect::<Result<_>>()?)
            }
            TypeDefKind::Record(_) | TypeDefKind::Variant(_) | TypeDefKind::Enum(_) => {
                self.read_named(id)?
            }
            other => return Err(format!("a {} is not supported", other.as_str())),
        })
    }

    fn read_resource(&mut self, id: TypeId) -> Result<Type> {
        if let Some(resource) = self.resources.get(&id) {
            return Ok(Type::Handle(*resource));
        }
        match self.resolve.types[id].name.as_deref() {
            Some("pollable") => Ok(Type::Pollable),
            name => Err(format!("the resource {name:?} is not one of ours")),
        }
    }

    fn read_named(&mut self, id: TypeId) -> Result<Type> {
        if let Some(known) = self.types.get(&id) {
            return Ok(Type::Named(*known));
        }
        let definition = &self.resolve.types[id];
        let TypeOwner::Interface(owner) = definition.owner else {
            return Err("a type outside of interfaces is not supported".into());
        };
        let interface = id_of(self.resolve, owner);
        let name = definition.name.as_deref().unwrap_or_default();
        let body = match &definition.kind {
            TypeDefKind::Record(record) => {
                let read = |field: &wit_parser::Field| {
                    Ok(Param {
                        name: identifier(&field.name),
                        ty: self.read_type(&field.ty)?,
                    })
                };
                Body::Record(record.fields.iter().map(read).collect::<Result<_>>()?)
            }
            TypeDefKind::Variant(variant) => {
                let mut cases = Vec::new();
                for case in &variant.cases {
                    let payload = case.ty.as_ref().map(|ty| self.read_type(ty)).transpose()?;
                    cases.push((case.name.to_upper_camel_case(), payload));
                }
                Body::Variant(cases)
            }
            TypeDefKind::Enum(all) => {
                let cases = all.cases.iter();
                Body::Enum(cases.map(|case| case.name.to_upper_camel_case()).collect())
            }
            _ => unreachable!("read_defined sends no other kinds"),
        };
        let camel = name.to_upper_camel_case();
        let index = self.contract.types.len();
        self.types.insert(id, index);
        self.contract.types.push(Named {
            id: format!("{interface}.{name}"),
            name: prefix(&interface) + &camel,
            rust_path: format!("{}::{camel}", rust_path(&interface)),
            docs: definition.docs.contents.clone().unwrap_or_default(),
            body,
            is_param: false,
            is_result: false,
        });
        Ok(Type::Named(index))
    }
}

fn rust_path(interface: &str) -> String {
    interface
        .to_string()
        .replace(['/', ':'], "::")
        .replace('-', "_")
}

/// A parameter's name. It must not be a keyword of Rust or C++, or a name that the generated code uses.
fn identifier(name: &str) -> String {
    const TAKEN: &[&str] = &[
        "auto",
        "bool",
        "case",
        "char",
        "class",
        "default",
        "delete",
        "double",
        "explicit",
        "export",
        "float",
        "friend",
        "guest",
        "host",
        "inline",
        "int",
        "keep",
        "long",
        "namespace",
        "operator",
        "private",
        "process",
        "protected",
        "public",
        "register",
        "reply",
        "result",
        "short",
        "signed",
        "switch",
        "template",
        "this",
        "throw",
        "typename",
        "union",
        "unsigned",
        "using",
        "void",
        "wait",
    ];
    let name = rust_identifier(name);
    match TAKEN.contains(&name.as_str()) {
        true => name + "_",
        false => name,
    }
}

/// A name as bindgen writes it in Rust.
fn rust_identifier(name: &str) -> String {
    const KEYWORDS: &[&str] = &[
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
        "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
        "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub",
        "ref", "return", "self", "static", "struct", "super", "trait", "true", "try", "type",
        "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
    ];
    let name = name.to_snake_case();
    match KEYWORDS.contains(&name.as_str()) {
        true => name + "_",
        false => name,
    }
}
