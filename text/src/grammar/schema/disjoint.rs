//! Whether two options of `oneOf` can both hold. If no two can, `oneOf` means what `anyOf` means, which is enforced.
use crate::grammar::{Budget, Error};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;

/// How deep references and properties are followed.
const DEPTH: usize = 12;
const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

/// The cost of a step.
const STEP: usize = 40;

/// The schema that references lead into, and the work that may still be done.
pub struct Ground<'a> {
    root: &'a Json,
    budget: &'a Budget,
}

impl<'a> Ground<'a> {
    pub fn new(root: &'a Json, budget: &'a Budget) -> Self {
        Ground { root, budget }
    }

    /// Whether `steps` more may be done. If not, what was found is not complete.
    fn spend(&self, steps: usize) -> bool {
        self.budget.take(steps.saturating_mul(STEP))
    }

    /// Fails if something was not found out because it would take too long.
    pub fn check(&self) -> Result<(), Error> {
        self.budget.check()
    }
}

/// Facts about the values that fit a schema. They may be incomplete, and are never wrong.
pub struct Facts<'a> {
    types: [bool; 6],
    /// The only values there are, by `const` or `enum`.
    values: Option<Vec<&'a Json>>,
    /// Least and most: a number, the length of a text, the items of an array.
    ranges: [(f64, f64); 3],
    /// The objects that hold the keywords, all of which apply.
    schemas: Vec<&'a Map<String, Json>>,
}

const RANGES: [(usize, &str, &str); 3] = [
    (2, "minimum", "maximum"),
    (3, "minLength", "maxLength"),
    (4, "minItems", "maxItems"),
];

impl<'a> Facts<'a> {
    pub fn of(ground: &Ground<'a>, schemas: &[&'a Json]) -> Self {
        Self::at_depth(ground, schemas, DEPTH)
    }

    fn at_depth(ground: &Ground<'a>, schemas: &[&'a Json], depth: usize) -> Self {
        let mut facts = Facts {
            types: [true; 6],
            values: None,
            ranges: [(f64::NEG_INFINITY, f64::INFINITY); 3],
            schemas: Vec::new(),
        };
        for schema in schemas {
            facts.add(ground, schema, depth);
        }
        facts
    }

    fn add(&mut self, ground: &Ground<'a>, schema: &'a Json, depth: usize) {
        let entries = match schema {
            Json::Bool(false) => {
                self.types = [false; 6];
                return;
            }
            Json::Object(entries) if depth > 0 && ground.spend(1) => entries,
            _ => return,
        };
        match entries.get("type") {
            Some(Json::String(name)) => self.keep_types(|type_| is_type(name, type_)),
            Some(Json::Array(names)) => self.keep_types(|type_| {
                let mut names = names.iter().filter_map(Json::as_str);
                names.any(|name| is_type(name, type_))
            }),
            _ => {}
        }
        if let Some(value) = entries.get("const") {
            self.keep_values(ground, std::slice::from_ref(value));
        }
        if let Some(Json::Array(values)) = entries.get("enum") {
            self.keep_values(ground, values);
        }
        for (range, (_, low, high)) in self.ranges.iter_mut().zip(RANGES) {
            let number = |key: &str| entries.get(key).and_then(Json::as_f64);
            range.0 = range.0.max(number(low).unwrap_or(f64::NEG_INFINITY));
            range.1 = range.1.min(number(high).unwrap_or(f64::INFINITY));
        }
        self.schemas.push(entries);
        if let Some(target) = entries
            .get("$ref")
            .and_then(|text| target(ground.root, text))
        {
            self.add(ground, target, depth - 1);
        }
        if let Some(Json::Array(all)) = entries.get("allOf") {
            for one in all {
                self.add(ground, one, depth - 1);
            }
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Json::Array(options)) = entries.get(key) {
                let options: Vec<Facts> = options
                    .iter()
                    .map(|option| Self::at_depth(ground, &[option], depth - 1))
                    .collect();
                for type_ in 0..TYPES.len() {
                    self.types[type_] &= options.iter().any(|option| option.types[type_]);
                }
            }
        }
    }

    fn keep_types(&mut self, keep: impl Fn(usize) -> bool) {
        for (type_, may) in self.types.iter_mut().enumerate() {
            *may &= keep(type_);
        }
    }

    fn keep_values(&mut self, ground: &Ground<'a>, values: &'a [Json]) {
        if !ground.spend(values.len()) {
            return;
        }
        let kept = match self.values.take() {
            Some(before) => {
                let others: HashSet<Same> = values.iter().map(Same::of).collect();
                let is_other = |value: &&Json| others.contains(&Same::of(value));
                before.into_iter().filter(is_other).collect()
            }
            None => values.iter().collect::<Vec<_>>(),
        };
        self.keep_types(|type_| kept.iter().any(|value| type_of(value) == type_));
        self.values = Some(kept);
    }

    pub fn are_disjoint(ground: &Ground<'a>, a: &Facts<'a>, b: &Facts<'a>) -> bool {
        Self::disjoint(ground, a, b, DEPTH)
    }

    fn disjoint(ground: &Ground<'a>, a: &Facts<'a>, b: &Facts<'a>, depth: usize) -> bool {
        let values = |facts: &Facts| facts.values.as_ref().map_or(0, Vec::len);
        if !ground.spend(1 + values(a) + values(b)) {
            return false;
        }
        if let (Some(ours), Some(theirs)) = (&a.values, &b.values) {
            let ours: HashSet<Same> = ours.iter().map(|value| Same::of(value)).collect();
            if !theirs.iter().any(|other| ours.contains(&Same::of(other))) {
                return true;
            }
        }
        let apart = |type_: usize| {
            let range = RANGES.iter().position(|(of, _, _)| *of == type_);
            range.is_some_and(|i| a.ranges[i].0 > b.ranges[i].1 || b.ranges[i].0 > a.ranges[i].1)
                || type_ == 5 && depth > 0 && Self::objects_disjoint(ground, a, b, depth - 1)
        };
        (0..TYPES.len()).all(|type_| !a.types[type_] || !b.types[type_] || apart(type_))
    }

    /// A name that one of them requires: the other forbids it, or gives it other values.
    fn objects_disjoint(ground: &Ground<'a>, a: &Facts<'a>, b: &Facts<'a>, depth: usize) -> bool {
        [(a, b), (b, a)].into_iter().any(|(one, other)| {
            one.required().any(|name| {
                // Each of their schemas is asked for the name.
                if !ground.spend((one.schemas.len() + other.schemas.len()) / 10) {
                    return false;
                }
                let facts = |of: &Facts<'a>| Facts::at_depth(ground, &of.property(name), depth);
                other.forbids(name) || Self::disjoint(ground, &facts(one), &facts(other), depth)
            })
        })
    }

    fn required(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.schemas
            .iter()
            .filter_map(|schema| schema.get("required")?.as_array())
            .flatten()
            .filter_map(Json::as_str)
    }

    fn property(&self, name: &str) -> Vec<&'a Json> {
        self.schemas
            .iter()
            .filter_map(|schema| schema.get("properties")?.get(name))
            .collect()
    }

    fn forbids(&self, name: &str) -> bool {
        self.schemas.iter().any(|schema| {
            schema.get("additionalProperties") == Some(&Json::Bool(false))
                && !schema.contains_key("patternProperties")
                && schema
                    .get("properties")
                    .and_then(|all| all.get(name))
                    .is_none()
        })
    }
}

fn is_type(name: &str, type_: usize) -> bool {
    TYPES[type_] == name || TYPES[type_] == "number" && name == "integer"
}

fn type_of(value: &Json) -> usize {
    match value {
        Json::Null => 0,
        Json::Bool(_) => 1,
        Json::Number(_) => 2,
        Json::String(_) => 3,
        Json::Array(_) => 4,
        Json::Object(_) => 5,
    }
}

/// The key by which values are compared: numbers by value. Arrays and objects count as equal, because they may be.
#[derive(PartialEq, Eq, Hash)]
enum Same<'a> {
    Null,
    Bool(bool),
    Number(u64),
    Text(&'a str),
    Array,
    Object,
}

impl<'a> Same<'a> {
    fn of(value: &'a Json) -> Self {
        match value {
            Json::Null => Same::Null,
            Json::Bool(value) => Same::Bool(*value),
            // Adding 0 makes 0 of -0.
            Json::Number(number) => Same::Number((number.as_f64().unwrap_or(0.0) + 0.0).to_bits()),
            Json::String(text) => Same::Text(text),
            Json::Array(_) => Same::Array,
            Json::Object(_) => Same::Object,
        }
    }
}

fn target<'a>(root: &'a Json, reference: &Json) -> Option<&'a Json> {
    let pointer = reference.as_str()?.strip_prefix('#')?;
    root.pointer(&super::checks::percent_decoded(pointer))
}
