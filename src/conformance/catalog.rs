//! The list of all checks, in the order in which they run.

use super::case::Case;
use super::checks::{
    attach, block, concurrency, copy, create, delete, every_call, expand, group, health, identity,
    list, metadata, modify, node, snapshot, validate,
};

/// Returns all checks, by area.
pub fn cases() -> Vec<Case> {
    [
        identity::CASES,
        create::CASES,
        delete::CASES,
        validate::CASES,
        list::CASES,
        health::CASES,
        snapshot::CASES,
        attach::CASES,
        node::CASES,
        block::CASES,
        copy::CASES,
        expand::CASES,
        modify::CASES,
        group::CASES,
        metadata::CASES,
        concurrency::CASES,
        every_call::CASES,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::case::Area;

    #[test]
    fn every_check_has_a_unique_id_below_its_area() {
        let mut seen = BTreeSet::new();
        for case in cases() {
            assert!(seen.insert(case.id), "duplicate ID {}", case.id);
            let (area, word) = case.id.split_once('/').expect("area/word");
            assert_eq!(area, case.area.as_str(), "{}", case.id);
            assert!(!word.is_empty() && !case.title.is_empty() && !case.section.is_empty());
            assert!(!case.title.ends_with('.'), "{}", case.title);
        }
    }

    #[test]
    fn areas_are_in_order_and_none_is_empty() {
        let mut areas: Vec<Area> = cases().iter().map(|case| case.area).collect();
        areas.dedup();
        assert_eq!(areas, Area::ALL);
    }
}
