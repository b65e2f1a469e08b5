//! Numbers that the crate would not keep exactly.
use super::{below, invalid, unsupported};
use crate::grammar::Error;
use serde_json::{Map, Value as Json};

/// Up to here every integer is exact in floating point, which the crate computes in.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Refuses a number that may have been rounded.
pub fn check_exact(value: &Json, pointer: &str) -> Result<(), Error> {
    match value {
        Json::Number(number) => match number.as_f64() {
            Some(float) if float.abs() < EXACT => Ok(()),
            _ => Err(unsupported(
                pointer,
                format!("{number} is not enforced exactly: numbers end at 2^53"),
            )),
        },
        Json::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                check_exact(item, &format!("{pointer}/{i}"))?;
            }
            Ok(())
        }
        Json::Object(entries) => {
            for (key, item) in entries {
                check_exact(item, &below(pointer, key))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// `coefficient / 10^digits`.
#[derive(Clone, Copy)]
pub struct Decimal {
    coefficient: u64,
    digits: u32,
}

impl Decimal {
    /// The decimal that the crate makes of a `multipleOf`, if it makes the right one.
    pub fn of(value: f64) -> Option<Decimal> {
        let (mut scaled, mut digits) = (value, 0);
        while scaled.fract() != 0.0 {
            scaled *= 10.0;
            digits += 1;
        }
        let fits = scaled <= f64::from(u32::MAX) && digits <= 6;
        fits.then_some(Decimal {
            coefficient: scaled as u64,
            digits,
        })
    }
}

pub fn checked_multiple(value: &Json, here: &str) -> Result<Decimal, Error> {
    let Some(number) = value.as_f64().filter(|number| *number > 0.0) else {
        return Err(invalid(
            here,
            format!("`multipleOf` is a number above 0, not {value}"),
        ));
    };
    Decimal::of(number).ok_or_else(|| {
        unsupported(
            here,
            format!("`multipleOf` {value} has too many digits to be enforced"),
        )
    })
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
    let Some(step) = schema.get("multipleOf").and_then(Json::as_f64) else {
        return false;
    };
    let fits = |value: &Json| match value.as_f64() {
        Some(number) => {
            let times = number / step;
            (times - times.round()).abs() < 1e-9
        }
        None => true,
    };
    if schema.get("const").is_some_and(|value| !fits(value)) {
        return true;
    }
    if let Some(Json::Array(values)) = schema.get_mut("enum") {
        values.retain(fits);
        if values.is_empty() {
            return true;
        }
    }
    let of_numbers = matches!(
        schema.get("type").and_then(Json::as_str),
        Some("integer" | "number")
    );
    let bound = |key: &str| schema.get(key).and_then(Json::as_f64);
    let low = bound("minimum").or(bound("exclusiveMinimum"));
    let high = bound("maximum").or(bound("exclusiveMaximum"));
    let (Some(low), Some(high), true) = (low, high, of_numbers) else {
        return false;
    };
    let mut first = (low / step).ceil() * step;
    if bound("exclusiveMinimum").is_some_and(|low| first <= low) {
        first += step;
    }
    first > high || bound("exclusiveMaximum").is_some_and(|high| first >= high)
}
