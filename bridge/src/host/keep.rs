//! Flat copies of arguments that C++ cannot read as they are, such as lists of strings.
use crate::abi::List;
use std::any::Any;
use std::cell::RefCell;

/// Owns the flat copies of one call. Most calls have none, and then this costs nothing.
#[derive(Default)]
pub struct Keep(RefCell<Vec<Box<dyn Any>>>);

impl Keep {
    /// Keeps the items. The list is valid as long as `self`.
    pub fn list<T: 'static>(&self, items: impl Iterator<Item = T>) -> List<T> {
        let items: Vec<T> = items.collect();
        let list = List::of(&items);
        self.0.borrow_mut().push(Box::new(items));
        list
    }

    /// Keeps the item, if there is one. The pointer is valid as long as `self`; it is null when there is none.
    #[allow(dead_code)] // unused if the contract has no options inside of records
    pub fn option<T: 'static>(&self, item: Option<T>) -> *const T {
        match item {
            Some(item) => self.list(std::iter::once(item)).ptr,
            None => std::ptr::null(),
        }
    }
}

/// A pointer to the item, or null.
pub fn optional<T>(item: &Option<T>) -> *const T {
    item.as_ref().map_or(std::ptr::null(), |item| item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Str;

    #[test]
    fn keeps_lists_within_lists() {
        let names = vec![vec!["a".to_string(), "bc".to_string()], vec![]];
        let keep = Keep::default();
        let outer = keep.list(
            names
                .iter()
                .map(|inner| keep.list(inner.iter().map(|name| Str::of(name)))),
        );
        let outer = unsafe { outer.as_slice() };
        let inner = unsafe { outer[0].as_slice() };
        assert_eq!(inner.len(), 2);
        assert_eq!(unsafe { inner[1].as_bytes() }, b"bc");
        assert!(unsafe { outer[1].as_slice() }.is_empty());
    }

    #[test]
    fn an_absent_option_is_null() {
        let keep = Keep::default();
        assert!(keep.option::<u64>(None).is_null());
        assert_eq!(unsafe { *keep.option(Some(7u64)) }, 7);
        assert!(optional::<u64>(&None).is_null());
        assert_eq!(unsafe { *optional(&Some(8u64)) }, 8);
    }
}
