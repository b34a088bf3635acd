//! Says which keys are allowed at a place of a file, with their documentation: for editors.
//!
//! A place is named by the keys and labels that lead to it: `volume`, `db`, `capability`. Below a key that is not known, no key
//! is.

use super::schema::{
    self, BLOCK_WORDS, CAPABILITY, CLASS, DEFAULT_CLASS_DOC, DEFAULTS, FILE, Field, FieldPlacement,
    INSTANCE_WORDS, Kind, MOUNT_OPTIONS, NOT_INHERITABLE, TOPOLOGY_REQUEST, VALIDATION_WORDS,
    VARIABLE, VARIABLE_WORDS, VOLUME,
};

/// How a key is written in HCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// `key = value`
    Value,
    /// `key { … }`
    Block,
    /// `key "label" { … }`
    LabelledBlock,
}

/// A key that is allowed at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// The key.
    pub key: &'static str,
    /// A line of documentation.
    pub doc: &'static str,
    /// How it is written in HCL.
    pub form: KeyForm,
    /// Its row, if it is a field of a volume or of a file.
    pub field: Option<&'static Field>,
}

impl KnownKey {
    fn of_field(field: &'static Field) -> Self {
        let form = match field.kind {
            Kind::Text | Kind::Size | Kind::Boolean | Kind::TextList => KeyForm::Value,
            Kind::Block | Kind::Blocks | Kind::TextMap => KeyForm::Block,
        };
        Self { key: field.key, doc: field.doc, form, field: Some(field) }
    }

    fn of_word((key, doc): (&'static str, &'static str), form: KeyForm) -> Self {
        Self { key, doc, form, field: None }
    }
}

/// Returns the keys that are allowed below a path of keys and labels. The top level of a file with blocks has no fields of a
/// volume.
pub fn known_keys(path: &[&str], has_blocks: bool) -> Vec<KnownKey> {
    let is_not_inherited = |field: &&Field| !NOT_INHERITABLE.contains(&field.key);
    let anywhere = |field: &&Field| field.place == FieldPlacement::Anywhere;
    match path {
        [] => {
            let own = VOLUME.iter().filter(anywhere).filter(|_| !has_blocks);
            let words = BLOCK_WORDS.into_iter().map(|word| {
                let form = match word.0 {
                    DEFAULTS | schema::LOCALS => KeyForm::Block,
                    _ => KeyForm::LabelledBlock,
                };
                KnownKey::of_word(word, form)
            });
            FILE.iter().chain(own).map(KnownKey::of_field).chain(words).collect()
        }
        ["volume", _] => {
            let instances = INSTANCE_WORDS.map(|word| KnownKey::of_word(word, KeyForm::Value));
            VOLUME.iter().map(KnownKey::of_field).chain(instances).collect()
        }
        [CLASS, _] => fields(VOLUME.iter().filter(is_not_inherited)),
        [DEFAULTS] => {
            let class = KnownKey::of_word((CLASS, DEFAULT_CLASS_DOC), KeyForm::Value);
            let inherited = VOLUME.iter().filter(is_not_inherited).map(KnownKey::of_field);
            inherited.chain([class]).collect()
        }
        [VARIABLE, _] => words(&VARIABLE_WORDS),
        [VARIABLE, _, "validation"] => words(&VALIDATION_WORDS),
        ["volume" | CLASS, _, inner @ ..] | [DEFAULTS, inner @ ..] => in_volume(inner),
        ["volume" | CLASS | VARIABLE | schema::LOCALS, ..] => vec![],
        inner => in_volume(inner),
    }
}

fn in_volume(path: &[&str]) -> Vec<KnownKey> {
    const SEGMENTS: (&str, &str) = ("segments", "Topology keys with their values.");
    let block = |word| KnownKey::of_word(word, KeyForm::Block);
    match path {
        ["capability"] => fields(CAPABILITY.iter()),
        ["mount_options"] => fields(MOUNT_OPTIONS.iter()),
        ["topology_request"] => fields(TOPOLOGY_REQUEST.iter()),
        ["topology_request", "required" | "preferred"] => {
            vec![block(("topology", "A topology.")), block(SEGMENTS)]
        }
        ["topology_request", "required" | "preferred", "topology"] => vec![block(SEGMENTS)],
        _ => vec![],
    }
}

fn fields(rows: impl Iterator<Item = &'static Field>) -> Vec<KnownKey> {
    rows.map(KnownKey::of_field).collect()
}

fn words(rows: &[(&'static str, &'static str)]) -> Vec<KnownKey> {
    let form = |key| match key {
        "validation" => KeyForm::Block,
        _ => KeyForm::Value,
    };
    rows.iter().map(|word| KnownKey::of_word(*word, form(word.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(path: &[&str], has_blocks: bool) -> Vec<&'static str> {
        known_keys(path, has_blocks).into_iter().map(|known| known.key).collect()
    }

    #[test]
    fn each_place_has_its_keys() {
        let with_blocks = ["set", "volume", "class", "defaults", "variable", "locals"];
        assert_eq!(keys(&[], true), with_blocks);
        let flat = keys(&[], false);
        assert!(flat.contains(&"plugin_id") && flat.contains(&"volume"));
        assert!(!flat.contains(&"source"));
        let volume = keys(&["volume", "db"], true);
        assert!(volume.contains(&"source") && volume.contains(&"for_each"));
        for path in [&["class", "fast"][..], &["defaults"]] {
            let keys = keys(path, true);
            assert!(keys.contains(&"capacity_min") && !keys.contains(&"external_id"), "{path:?}");
            assert_eq!(keys.contains(&"class"), path == ["defaults"]);
        }
        for (path, expected) in [
            (&["variable", "a"][..], &VARIABLE_WORDS.map(|(key, _)| key)[..]),
            (&["variable", "a", "validation"], &["condition", "error_message"]),
            (&["volume", "db", "capability"], &["access_mode", "attachment_mode"]),
            (&["capability"], &["access_mode", "attachment_mode"]),
            (&["defaults", "mount_options"], &["fs_type", "mount_flags"]),
            (&["topology_request", "required"], &["topology", "segments"]),
            (&["class", "a", "topology_request", "preferred", "topology"], &["segments"]),
            (&["volume", "db", "secrets"], &[]),
            (&["locals"], &[]),
            (&["volume"], &[]),
        ] {
            assert_eq!(keys(path, true), expected, "{path:?}");
        }
    }

    #[test]
    fn the_words_of_the_tables_are_those_that_are_read() {
        let of = |words: &[(&'static str, &str)]| {
            let mut keys: Vec<_> = words.iter().map(|(key, _)| *key).collect();
            keys.sort_unstable();
            keys
        };
        let sorted = |keys: &[&'static str]| {
            let mut keys = keys.to_vec();
            keys.sort_unstable();
            keys
        };
        assert_eq!(of(&VARIABLE_WORDS), sorted(&schema::VARIABLE_FIELDS));
        assert_eq!(of(&VALIDATION_WORDS), sorted(&schema::VALIDATION_FIELDS));
        assert_eq!(of(&INSTANCE_WORDS), sorted(&schema::VOLUME_BLOCK));
    }
}
