//! Numbers that the crate lets no model write, or only with zeros at their end.
//!
//! A multiple of 0.25 has two digits behind its point for the crate: 0.50, and not 0.5. Below 0.55 it asks for a second
//! digit behind 0.5. And it takes 0.3 for no multiple of 0.1 where that is the only one between two bounds. So these
//! numbers become options beside what the crate makes of the keywords.
use super::numbers::{units, Decimal};
use serde_json::{json, Map, Number, Value as Json};

const KEYWORDS: [&str; 5] = [
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
];
/// Types of values that are no numbers.
const OTHERS: [&str; 5] = ["null", "boolean", "string", "array", "object"];
/// If there are so few multiples between the bounds, each is an option.
const FEW: i128 = 20;

/// Takes the keywords of numbers out of a schema, and gives a schema that says the same with all spellings. None if they
/// can stay. The keywords were checked, and so was whether they leave anything.
pub fn of_numbers(schema: &mut Map<String, Json>) -> Option<Json> {
    let types = match schema.get("type") {
        None => None,
        Some(Json::String(name)) => Some(vec![name.clone()]),
        Some(list) => serde_json::from_value::<Vec<String>>(list.clone()).ok(),
    };
    let has_numbers = types
        .as_ref()
        .is_none_or(|types| types.iter().any(|name| name == "number"));
    if !has_numbers || schema.contains_key("const") || schema.contains_key("enum") {
        return None;
    }
    let numbers: Map<String, Json> = KEYWORDS
        .iter()
        .filter_map(|key| Some((key.to_string(), schema.get(*key)?.clone())))
        .collect();
    let mut options = options_of(&numbers)?;
    for key in KEYWORDS {
        schema.shift_remove(key);
    }
    // The type is said by the options, so that nothing has to be combined with them.
    let others: Vec<String> = match types {
        None => OTHERS.map(String::from).to_vec(),
        Some(types) => {
            schema.shift_remove("type");
            let is_other = |name: &String| OTHERS.contains(&name.as_str());
            types.into_iter().filter(is_other).collect()
        }
    };
    if !others.is_empty() {
        options.push(json!({ "type": others }));
    }
    Some(json!({ "anyOf": options }))
}

/// The numbers as options; None if the keywords alone do.
fn options_of(numbers: &Map<String, Json>) -> Option<Vec<Json>> {
    let value = |key: &str| numbers.get(key).and_then(Json::as_f64);
    let step = value("multipleOf").and_then(Decimal::read);
    if let Some(all) = step.and_then(|step| few_multiples(step, &value)) {
        return Some(
            all.into_iter()
                .map(|number| json!({ "const": number }))
                .collect(),
        );
    }
    let mut steps = vec![value("multipleOf")];
    steps.extend(step.into_iter().flat_map(shorter_steps).map(Some));
    let constants = cut_bounds(step, &value);
    if steps.len() == 1 && constants.is_empty() {
        return None;
    }
    let of_step = |step: Option<f64>| {
        let mut option = numbers.clone();
        if let Some(step) = step {
            option.insert("multipleOf".into(), json!(step));
        }
        option.insert("type".into(), json!("number"));
        Json::Object(option)
    };
    let mut options: Vec<Json> = steps.into_iter().map(of_step).collect();
    options.extend(
        constants
            .into_iter()
            .map(|number| json!({ "const": number })),
    );
    Some(options)
}

/// The multiples between two bounds, if there are few and the bounds have fractions: whole ones are exact for the crate.
fn few_multiples(step: Decimal, value: &impl Fn(&str) -> Option<f64>) -> Option<Vec<Number>> {
    if step.digits == 0 {
        return None;
    }
    let bound = |key: &str| value(key).map(|number| units(number, step.digits));
    let size = i128::from(step.coefficient);
    let least = [("minimum", false), ("exclusiveMinimum", true)].map(|(key, excluded)| {
        let (floor, is_exact) = bound(key)?;
        Some(floor + i128::from(excluded || !is_exact))
    });
    let most = [("maximum", false), ("exclusiveMaximum", true)].map(|(key, excluded)| {
        let (floor, is_exact) = bound(key)?;
        Some(floor - i128::from(excluded && is_exact))
    });
    let least = least.into_iter().flatten().max()?;
    let most = most.into_iter().flatten().min()?;
    let (first, last) = (-(-least).div_euclid(size), most.div_euclid(size));
    (last - first < FEW).then(|| {
        (first..=last)
            .filter_map(|count| decimal(count * size, step.digits))
            .collect()
    })
}

/// Multiples of the step that have fewer digits, where the crate asks for all digits: multiples of 0.125 with one digit
/// are those of 0.5, and with two those of 0.25.
fn shorter_steps(step: Decimal) -> Vec<f64> {
    let shorter = (1..step.digits).filter_map(|digits| {
        let power = 10u64.pow(step.digits - digits);
        if power > step.coefficient {
            return None; // the crate goes on digit by digit
        }
        let coefficient = step.coefficient / gcd(step.coefficient, power);
        let written = decimal(i128::from(coefficient), digits)?.as_f64()?;
        Decimal::of(written).map(|(_, near)| near)
    });
    shorter.collect()
}

/// Bounds that are cut off behind one of their digits, away from 0 or not: 0.5 for a maximum of 0.55.
fn cut_bounds(step: Option<Decimal>, value: &impl Fn(&str) -> Option<f64>) -> Vec<Number> {
    let upper = ["maximum", "exclusiveMaximum"].map(value);
    let lower = ["minimum", "exclusiveMinimum"].map(value);
    let above = upper.into_iter().flatten().filter(|bound| *bound > 0.0);
    let below = lower.into_iter().flatten().filter(|bound| *bound < 0.0);
    let fits = |number: f64| {
        value("minimum").is_none_or(|bound| number >= bound)
            && value("exclusiveMinimum").is_none_or(|bound| number > bound)
            && value("maximum").is_none_or(|bound| number <= bound)
            && value("exclusiveMaximum").is_none_or(|bound| number < bound)
            && step.is_none_or(|step| step.divides(number))
    };
    let mut found = Vec::new();
    for bound in above.chain(below) {
        let text = bound.to_string();
        let Some(point) = text.find('.') else {
            continue;
        };
        for end in point + 2..text.len() {
            let cut = &text[..end];
            let number = cut.parse::<f64>().ok().filter(|number| fits(*number));
            // What ends with a zero is a shorter number, which another option has.
            match number.and_then(Number::from_f64) {
                Some(number) if !cut.ends_with('0') && !found.contains(&number) => {
                    found.push(number);
                }
                _ => {}
            }
        }
    }
    found
}

/// `count / 10^digits`, as it is written shortest.
fn decimal(count: i128, digits: u32) -> Option<Number> {
    let power = 10i128.pow(digits);
    let (whole, rest) = (count.abs() / power, count.abs() % power);
    if rest == 0 {
        return Some(Number::from(i64::try_from(count / power).ok()?));
    }
    let sign = if count < 0 { "-" } else { "" };
    let text = format!("{sign}{whole}.{rest:0width$}", width = digits as usize);
    Number::from_f64(text.parse().ok()?)
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Json {
        let mut schema: Map<String, Json> = serde_json::from_str(text).unwrap();
        of_numbers(&mut schema).map_or(Json::Null, |made| made["anyOf"].clone())
    }

    #[test]
    fn what_the_crate_writes_stays_as_it_is() {
        for text in [
            r#"{"type": "number", "minimum": 0, "maximum": 10}"#,
            r#"{"type": "integer", "minimum": 0.25, "maximum": 0.55, "multipleOf": 0.25}"#,
            r#"{"type": "number", "multipleOf": 0.01}"#,
            r#"{"type": "number", "minimum": 0.25, "maximum": 0.5}"#,
            r#"{"const": 0.5, "multipleOf": 0.25}"#,
            r#"{"type": "string"}"#,
        ] {
            assert_eq!(options(text), Json::Null, "{text}");
        }
    }

    #[test]
    fn other_spellings_are_options() {
        let all = options(r#"{"type": "number", "multipleOf": 0.125}"#);
        let steps: Vec<f64> = (all.as_array().unwrap().iter())
            .map(|option| option["multipleOf"].as_f64().unwrap())
            .collect();
        assert_eq!(steps, [0.125, 0.5, 0.25]);
        let all = options(r#"{"type": "number", "minimum": -1.25, "maximum": 0.555}"#);
        let constants: Vec<&Json> = (all.as_array().unwrap().iter().skip(1))
            .map(|option| &option["const"])
            .collect();
        assert_eq!(constants, [&json!(0.5), &json!(0.55), &json!(-1.2)]);
        let few = r#"{"type": ["number", "null"], "exclusiveMinimum": 0.25, "maximum": 0.4, "multipleOf": 0.1}"#;
        assert_eq!(
            options(few),
            json!([{"const": 0.3}, {"const": 0.4}, {"type": ["null"]}])
        );
    }
}
