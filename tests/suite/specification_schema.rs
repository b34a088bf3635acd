//! The schema of specifications in YAML and JSON agrees with the program: what is valid fits, and an unknown key does not.

use std::path::{Path, PathBuf};

use nomad_csi_model::diagnostic::{Code, Diagnostics, SourceMap};
use nomad_csi_spec::{
    Defaults, GivenVariables, Purpose, Syntax, read, specification_schema, validate,
};
use serde_json::{Value, json};

use crate::json_schema::violations;

const COMMITTED: &str = include_str!("../../docs/schemas/specification.v1.json");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn problems(document: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(&specification_schema()).expect("it is JSON");
    violations(&schema, &schema, document, "")
}

#[test]
fn the_committed_schema_is_that_of_the_program() {
    let expected = specification_schema();
    if std::env::var_os("NOMAD_CSI_BLESS").is_some() {
        let file = root().join("docs/schemas/specification.v1.json");
        std::fs::write(file, &expected).expect("a writable file");
        return;
    }
    assert!(COMMITTED == expected, "it is outdated: NOMAD_CSI_BLESS=1 updates it");
}

/// Every YAML and JSON text of the examples and of the transcripts.
fn texts() -> Vec<(String, Syntax, String)> {
    let mut found = vec![];
    let mut folders =
        vec![root().join("specs"), root().join("tests/transcripts"), root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a readable directory").flatten() {
            let path = entry.path();
            let name = path.display().to_string();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            match (Syntax::from_path(&path), path.extension().and_then(|end| end.to_str())) {
                (Some(syntax), _) if name.contains("/specs/") => found.push((name, syntax, text)),
                (_, Some("md")) => {
                    for (opening, syntax) in
                        [("\n```yaml", Syntax::Yaml), ("\n```json", Syntax::Json)]
                    {
                        for block in text.split(opening).skip(1) {
                            let (_, block) = block.split_once('\n').unwrap_or_default();
                            let inside = block.split("\n```").next().unwrap_or_default();
                            found.push((name.clone(), syntax, inside.to_owned()));
                        }
                    }
                }
                (_, _) => {}
            }
        }
    }
    found.retain(|(_, syntax, _)| *syntax != Syntax::Hcl);
    found
}

fn documents(syntax: Syntax, text: &str) -> Option<Vec<Value>> {
    let single = |text: &str| match syntax {
        Syntax::Json => serde_json::from_str(text).ok(),
        Syntax::Yaml | Syntax::Hcl => serde_yaml::from_str(text).ok(),
    };
    let parts = match syntax {
        Syntax::Yaml => text.split("\n---\n").collect(),
        Syntax::Json | Syntax::Hcl => vec![text],
    };
    parts.into_iter().map(single).collect()
}

#[test]
fn what_is_valid_fits_the_schema_and_an_unknown_key_does_not() {
    let (mut valid, mut unknown) = (0, 0);
    for (name, syntax, text) in texts() {
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let source = sources.add("file", text.as_str());
        let defaults = Defaults::default();
        let given = GivenVariables::default();
        let texts = [(source, syntax)];
        let parsed = read(&mut sources, &texts, &given, &defaults, &mut diagnostics);
        validate(&parsed.volumes, Purpose::ByExternalId, &mut diagnostics);
        let Some(documents) = documents(syntax, &text) else { continue };
        let found: Vec<String> = documents.iter().flat_map(problems).collect();
        let has_unknown_key = diagnostics.iter().any(|one| one.code == Code::SpecUnknownField);
        if has_unknown_key {
            unknown += 1;
            assert_ne!(found, [""; 0], "{name}\n{text}");
        } else if !diagnostics.has_errors() {
            valid += 1;
            assert_eq!(found, [""; 0], "{name}\n{text}");
        }
    }
    assert!(valid >= 10 && unknown >= 2, "{valid} valid, {unknown} with an unknown key");
}

#[test]
fn each_unknown_key_is_refused_wherever_it_is() {
    let volume = json!({
        "id": "a", "type": "csi", "plugin_id": "p", "name": "a",
        "capability": [{"access_mode": "single-node-writer", "attachment_mode": "file-system"}],
        "mount_options": {"fs_type": "ext4"},
        "topology_request": {"required": [{"segments": {"zone": "a"}}]},
        "secrets": {"a": {"env": "A"}},
    });
    assert_eq!(problems(&volume), [""; 0]);
    let blocks = json!({"volume": {"a": volume}, "defaults": {"type": "csi"}, "class": {"c": {}}});
    assert_eq!(problems(&blocks), [""; 0]);
    for (document, places) in [
        (
            &volume,
            &[
                "",
                "/capability/0",
                "/mount_options",
                "/topology_request",
                "/topology_request/required/0",
                "/secrets/a",
            ][..],
        ),
        (&blocks, &["", "/volume/a", "/defaults", "/class/c", "/volume/a/capability/0"]),
    ] {
        for place in places {
            let mut changed = document.clone();
            changed.pointer_mut(place).expect(place)["unknown_key"] = json!(1);
            assert_ne!(problems(&changed), [""; 0], "{place}");
        }
    }
}

#[test]
fn the_language_is_part_of_the_schema() {
    let document = json!({
        "set": "payments-${var.env}",
        "variable": {"env": {"type": "string", "validation": [{"condition": "${true}", "error_message": "no"}]}, "shards": {"default": {}}},
        "locals": {"zones": ["a"]},
        "class": {"fast": {"plugin_id": "ceph-${var.env}", "secrets": {"key": {"vault": ["kv/ceph", "key"]}}}},
        "defaults": {"type": "csi", "class": "fast"},
        "volume": {
            "pg": {"count": 3, "capacity_min": "10GiB", "topology_request": {"required": [{"segments": {"zone": "${local.zones[0]}"}}]}},
            "shard": {"for_each": "${var.shards}", "parameters": {"imageFeatures": null}, "capability": "${var.modes}"},
            "audit": {"enabled": "${var.env == \"prod\"}", "class": null},
        },
    });
    assert_eq!(problems(&document), [""; 0]);
    for (place, value) in [
        ("/volume/pg/count", json!("3")),
        ("/volume/audit/enabled", json!("yes")),
        ("/class/fast/id", json!("a")),
        ("/defaults/external_id", json!("a")),
        ("/volume/pg/protect", json!("true")),
    ] {
        let mut changed = document.clone();
        let (parent, key) = place.rsplit_once('/').expect("a path");
        changed.pointer_mut(parent).expect(place)[key] = value;
        assert_ne!(problems(&changed), [""; 0], "{place}");
    }
}
