//! The inferlet's package name: from `Pie.toml` beside the crate's `Cargo.toml`, else from the crate.

use std::path::Path;

/// Packages that the engine itself defines (`pie:core`, …).
const RESERVED: [&str; 7] = ["core", "instruct", "mcp", "zo", "plus", "inferlet", "wasi"];

pub struct Package {
    pub name: String,
    /// The `Pie.toml` that the name comes from.
    pub manifest: Option<String>,
}

pub fn find() -> Result<Package, String> {
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let path = Path::new(&root).join("Pie.toml");
    let (name, manifest) = match std::fs::read_to_string(&path) {
        Ok(text) => {
            let name = name_in(&text)
                .ok_or_else(|| format!("{}: [package] has no `name = \"…\"`", path.display()))?;
            (name, Some(path.display().to_string()))
        }
        Err(_) => {
            let name = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
            (name.replace('_', "-"), None)
        }
    };
    check(&name)?;
    Ok(Package { name, manifest })
}

/// `[package].name` of a manifest. A few lines instead of a TOML parser, which every inferlet would have to
/// compile; `bakery` validates the whole file.
fn name_in(manifest: &str) -> Option<String> {
    let mut in_package = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            in_package = line.trim_start_matches('[').trim_start().starts_with("package");
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        if in_package && key.trim().trim_matches('"') == "name" {
            let value = value.trim();
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            return value[1..].split(quote).next().map(str::to_string);
        }
    }
    None
}

/// WIT's own rule for a package: lower-case words; the first word begins with a letter.
fn check(name: &str) -> Result<(), String> {
    let word_is_good = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins_well || !name.split('-').all(word_is_good) {
        return Err(format!(
            "`{name}` cannot name an inferlet: use lower-case words joined by hyphens, the first of \
             which begins with a letter (for example `my-app-2`)"
        ));
    }
    if RESERVED.contains(&name) {
        return Err(format!("the name `{name}` is reserved for the engine: choose another"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_name_of_the_package_table_only() {
        let text =
            "# hi\n[runtime]\nname = \"no\"\n[package] # here\nversion = \"1\"\nname = \"my-app\" # yes\n";
        assert_eq!(name_in(text).as_deref(), Some("my-app"));
        assert_eq!(name_in("name = \"outside\""), None);
    }

    #[test]
    fn refuses_names_that_cannot_be_exported() {
        for good in ["my-app2", "my-app-2", "a-2b-3"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["My-App", "my_app", "2fast", "a-", "a--b", "", "core"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
