//! Numbers that the crate would not keep exactly.
use super::{below, invalid, unsupported};
use crate::grammar::Error;
use serde_json::{Map, Number, Value as Json};

/// Up to here every integer is exact in floating point, which the crate computes in.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Refuses a number that may have been rounded.
pub fn check_exact(value: &Json, pointer: &str) -> Result<(), Error> {
    match inexact(value) {
        None => Ok(()),
        Some((path, number)) => Err(unsupported(
            &path
                .iter()
                .rev()
                .fold(pointer.to_string(), |at, key| below(&at, key)),
            format!("{number} is not enforced exactly: numbers end at 2^53"),
        )),
    }
}

/// The first number that may have been rounded, and the keys on the way to it, the last one first.
fn inexact(value: &Json) -> Option<(Vec<String>, &Number)> {
    let under = |key: String, value| {
        inexact(value).map(|(mut path, number)| {
            path.push(key);
            (path, number)
        })
    };
    match value {
        Json::Number(number) => {
            let is_exact = number.as_f64().is_some_and(|float| float.abs() < EXACT);
            (!is_exact).then(|| (Vec::new(), number))
        }
        Json::Array(items) => {
            (items.iter().enumerate()).find_map(|(i, item)| under(i.to_string(), item))
        }
        Json::Object(entries) => entries
            .iter()
            .find_map(|(key, item)| under(key.clone(), item)),
        _ => None,
    }
}

/// `coefficient / 10^digits`.
#[derive(Clone, Copy)]
pub struct Decimal {
    pub coefficient: u64,
    pub digits: u32,
}

impl Decimal {
    /// The decimal that the crate makes of a `multipleOf`. It multiplies by ten until no fraction is left, and so it may
    /// make another one than was written.
    pub fn read(value: f64) -> Option<Decimal> {
        let (mut scaled, mut digits) = (value, 0);
        let most = f64::from(u32::MAX);
        while scaled <= most && digits <= 6 && scaled.fract() != 0.0 {
            scaled *= 10.0;
            digits += 1;
        }
        (scaled <= most && digits <= 6).then_some(Decimal {
            coefficient: scaled as u64,
            digits,
        })
    }

    /// The decimal that is written, and the number, equal or nearest to it, that the crate makes the same decimal of. The
    /// crate makes no such decimal of 0.07, but it does of the floating-point number below.
    pub fn of(value: f64) -> Option<(Decimal, f64)> {
        [0, -1, 1, -2, 2].into_iter().find_map(|steps| {
            let near = f64::from_bits(value.to_bits().checked_add_signed(steps)?);
            let read = Decimal::read(near)?;
            let is_written = units(value, read.digits) == (i128::from(read.coefficient), true);
            is_written.then_some((read, near))
        })
    }

    pub fn divides(self, value: f64) -> bool {
        let (units, is_exact) = units(value, self.digits);
        is_exact && units % i128::from(self.coefficient) == 0
    }
}

/// The most units of `1 / 10^digits` that are not above the value, which is below 2^53, and whether they are the value.
/// The value is the decimal number that is written shortest, as in a document.
pub fn units(value: f64, digits: u32) -> (i128, bool) {
    let text = value.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (near, far) = fraction.split_at(fraction.len().min(digits as usize));
    let count = format!("{whole}{near:0<width$}", width = digits as usize)
        .parse()
        .unwrap_or(i128::MAX);
    let is_exact = far.bytes().all(|digit| digit == b'0');
    match (value < 0.0, is_exact) {
        (false, _) => (count, is_exact),
        (true, true) => (-count, true),
        (true, false) => (-count - 1, false),
    }
}

/// The decimal, and the number to pass to the crate.
pub fn checked_multiple(value: &Json, here: &str) -> Result<(Decimal, Json), Error> {
    let Some(number) = value.as_f64().filter(|number| *number > 0.0) else {
        return Err(invalid(
            here,
            format!("`multipleOf` is a number above 0, not {value}"),
        ));
    };
    match Decimal::of(number) {
        Some((decimal, near)) if near == number => Ok((decimal, value.clone())),
        Some((decimal, near)) => Ok((decimal, Json::from(near))),
        None => Err(unsupported(
            here,
            format!(
                "`multipleOf` {value} is not enforced exactly; whole numbers up to {} are, and most decimals of few digits, such as 0.01, 0.07 or 2.5",
                u32::MAX
            ),
        )),
    }
}

/// Whether the crate can intersect these, each with each: it computes least common multiples in 32 bits.
pub fn can_be_combined(all: &[Decimal]) -> bool {
    let digits = all.iter().map(|one| one.digits).max().unwrap_or(0);
    let mut common: u64 = 1;
    for one in all {
        let scaled = one.coefficient * 10u64.pow(digits - one.digits);
        common = common / gcd(common, scaled) * scaled;
        if common > u64::from(u16::MAX) {
            return false;
        }
    }
    true
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// Whether `multipleOf` leaves nothing of the constants or of the range beside it. Values of `enum` that are no multiples
/// are taken out. The crate would offer such a value and then not know how to go on.
pub fn leaves_nothing(schema: &mut Map<String, Json>) -> bool {
    let multiple = schema.get("multipleOf").and_then(Json::as_f64);
    let Some(step) = multiple.and_then(Decimal::read) else {
        return false;
    };
    let fits = |value: &Json| value.as_f64().is_none_or(|number| step.divides(number));
    if schema.get("const").is_some_and(|value| !fits(value)) {
        return true;
    }
    if let Some(Json::Array(values)) = schema.get_mut("enum") {
        values.retain(fits);
        if values.is_empty() {
            return true;
        }
    }
    if schema.contains_key("const") || schema.contains_key("enum") {
        // The crate divides in floating point: it takes 0.3 for no multiple of 0.1.
        schema.remove("multipleOf");
        return false;
    }
    // Multiples within the bounds, in units.
    let power = 10i128.pow(step.digits);
    let step_units = i128::from(step.coefficient);
    let step_units = match schema.get("type").and_then(Json::as_str) {
        Some("integer") => step_units / gcd(step.coefficient, power as u64) as i128 * power,
        Some("number") => step_units,
        _ => return false,
    };
    let bound = |key: &str| {
        let value = schema.get(key).and_then(Json::as_f64);
        value.map(|value| units(value, step.digits))
    };
    let (mut first, mut last) = (i128::MIN, i128::MAX);
    if let Some((floor, is_exact)) = bound("minimum") {
        let least = floor + i128::from(!is_exact);
        first = first.max(-(-least).div_euclid(step_units) * step_units);
    }
    if let Some((floor, _)) = bound("exclusiveMinimum") {
        first = first.max((floor.div_euclid(step_units) + 1) * step_units);
    }
    if let Some((floor, _)) = bound("maximum") {
        last = last.min(floor.div_euclid(step_units) * step_units);
    }
    if let Some((floor, is_exact)) = bound("exclusiveMaximum") {
        let most = floor - i128::from(is_exact);
        last = last.min(most.div_euclid(step_units) * step_units);
    }
    first > last
}

/// The least number above 0 that is written where 0 is excluded, and another bound is below 1.
const LEAST: f64 = 1e-50;

/// Moves a whole bound that is excluded to the next number. Between it and another bound with the same whole part, as in
/// 0 < x ≤ 0.5, the crate's expression lets the bound itself pass. `is_composed`: the other bound may be elsewhere.
pub fn move_excluded(schema: &mut Map<String, Json>, is_composed: bool) {
    if schema.get("type").and_then(Json::as_str) == Some("integer") {
        return; // integers have an expression of their own
    }
    let sides = [
        (
            1.0,
            "exclusiveMinimum",
            "minimum",
            "maximum",
            "exclusiveMaximum",
        ),
        (
            -1.0,
            "exclusiveMaximum",
            "maximum",
            "minimum",
            "exclusiveMinimum",
        ),
    ];
    for (sign, excluded, included, other, other_excluded) in sides {
        // An upper bound below 0 is treated as a lower bound above 0.
        let bound = |key: &str| Some(schema.get(key)?.as_f64()? * sign);
        let Some(whole) = bound(excluded).filter(|n| *n >= 0.0 && n.fract() == 0.0) else {
            continue;
        };
        let is_near = |bound: Option<f64>| bound.is_some_and(|n| n > whole && n < whole + 1.0);
        if !is_composed && !is_near(bound(other)) && !is_near(bound(other_excluded)) {
            continue;
        }
        let next = match whole == 0.0 {
            true => LEAST,
            false => f64::from_bits(whole.to_bits() + 1),
        };
        let moved = bound(included).map_or(next, |n| n.max(next));
        schema.insert(included.into(), Json::from(moved * sign));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_counted_exactly() {
        assert_eq!(units(0.3, 1), (3, true));
        assert_eq!(units(0.35, 1), (3, false));
        assert_eq!(units(-0.35, 1), (-4, false));
        assert_eq!(units(-2.0, 2), (-200, true));
        assert_eq!(units(1e-10, 0), (0, false));
        assert_eq!(units(12.0, 0), (12, true));
        assert_eq!(units(9007199254740991.0, 6), (9007199254740991000000, true));
    }

    #[test]
    fn the_crate_is_given_a_number_that_it_reads_exactly() {
        for (written, passed) in [
            (5.0, Some(5.0)),
            (0.25, Some(0.25)),
            (0.07, Some(0.06999999999999999)),
            (0.53, None),
            (1e-30, None),
            (1e12, None),
            (f64::MAX, None),
            (5e-324, None),
        ] {
            let found = Decimal::of(written);
            assert_eq!(found.map(|(_, near)| near), passed, "{written}");
        }
        let (seven, _) = Decimal::of(0.07).unwrap();
        assert_eq!((seven.coefficient, seven.digits), (7, 2));
    }

    #[test]
    fn multiples_are_found_exactly() {
        let nothing = |text: &str| {
            let mut schema: Map<String, Json> = serde_json::from_str(text).unwrap();
            leaves_nothing(&mut schema)
        };
        for (text, expected) in [
            (
                r#"{"type": "number", "minimum": 0.3, "maximum": 0.35, "multipleOf": 0.1}"#,
                false,
            ),
            (
                r#"{"type": "number", "exclusiveMinimum": 0.3, "exclusiveMaximum": 0.4, "multipleOf": 0.1}"#,
                true,
            ),
            (
                r#"{"type": "number", "minimum": -0.4, "exclusiveMaximum": -0.3, "multipleOf": 0.1}"#,
                false,
            ),
            (
                r#"{"type": "integer", "minimum": 1, "maximum": 1.9, "multipleOf": 0.4}"#,
                true,
            ),
            (
                r#"{"type": "integer", "minimum": 1, "maximum": 2, "multipleOf": 0.4}"#,
                false,
            ),
            (
                r#"{"type": "integer", "minimum": -9, "exclusiveMinimum": -5, "maximum": -1, "multipleOf": 5}"#,
                true,
            ),
            (r#"{"const": 0.3, "multipleOf": 0.1}"#, false),
            (r#"{"const": 0.0000000001, "multipleOf": 1}"#, true),
        ] {
            assert_eq!(nothing(text), expected, "{text}");
        }
    }
}
