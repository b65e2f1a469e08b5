//! `oneOf`: exactly one option holds.
use super::disjoint::{Facts, Ground};
use super::unsupported;
use crate::grammar::Error;
use serde_json::Value as Json;

/// `oneOf` is enforced where no value can fit two of its options.
pub fn check<'a>(
    ground: &Ground<'a>,
    schema: &'a Json,
    options: &'a Json,
    here: &str,
) -> Result<(), Error> {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let facts: Vec<Facts> = options
        .iter()
        .map(|option| Facts::of(ground, &[schema, option]))
        .collect();
    for (j, second) in facts.iter().enumerate() {
        for (i, first) in facts[..j].iter().enumerate() {
            if !Facts::are_disjoint(ground, first, second) {
                ground.check()?;
                return Err(unsupported(
                    here,
                    format!(
                        "`oneOf`: options {i} and {j} may both hold, which is not enforced; write `anyOf`, or tell them apart by type or by a required property with different constants"
                    ),
                ));
            }
        }
    }
    Ok(())
}
