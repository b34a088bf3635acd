//! Checks every `plan -o json`, `drift -o json` and `volume doctor -o json` document of the transcripts against `docs/schemas`.
//!
//! The checker supports only the keywords of JSON Schema that those files use.

use std::path::Path;

use serde_json::{Value, json};

const PLAN: &str = include_str!("../../docs/schemas/plan.v1.json");
const DRIFT: &str = include_str!("../../docs/schemas/drift.v1.json");
const DOCTOR: &str = include_str!("../../docs/schemas/doctor.v1.json");

fn schema(text: &str) -> Value {
    serde_json::from_str(text).expect("the schema is JSON")
}

/// Returns the violations of a schema by a document; `at` is the current path.
fn violations(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = vec![];
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        match keyword.as_str() {
            "$schema" | "title" | "description" | "$defs" => {}
            "$ref" => {
                let path = rule.as_str().expect("a reference is a string").trim_start_matches('#');
                let target = root.pointer(path).expect("the reference has a target");
                found.extend(violations(root, target, value, at));
            }
            "const" if rule == value => {}
            "enum" if rule.as_array().expect("a list is required").contains(value) => {}
            "const" | "enum" => found.push(format!("{at}: {value} is not {rule}")),
            "type" => found.extend(of_type(rule, value, at)),
            "anyOf" => {
                let any = rule.as_array().expect("a list is required");
                let fits = |schema: &Value| violations(root, schema, value, at).is_empty();
                if !any.iter().any(fits) {
                    found.push(format!("{at}: {value} matches no alternative"));
                }
            }
            "items" => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                for (index, item) in items.iter().enumerate() {
                    found.extend(violations(root, rule, item, &format!("{at}/{index}")));
                }
            }
            "required" => {
                let missing = rule.as_array().expect("a list is required").iter();
                let missing = missing
                    .filter(|key| value.get(key.as_str().expect("a key is a string")).is_none());
                found.extend(missing.map(|key| format!("{at}: {key} is missing")));
            }
            "properties" => {
                for (key, property) in rule.as_object().expect("an object is required") {
                    let below = value.get(key);
                    let of = |below| violations(root, property, below, &format!("{at}/{key}"));
                    found.extend(below.map(of).unwrap_or_default());
                }
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object().expect("an object is required");
                let keys = value.as_object().into_iter().flat_map(serde_json::Map::keys);
                let unknown = keys.filter(|key| !known.contains_key(*key));
                found.extend(unknown.map(|key| format!("{at}: {key} is not in the schema")));
            }
            other => panic!("{at}: the checker does not support `{other}`"),
        }
    }
    found
}

fn of_type(rule: &Value, value: &Value, at: &str) -> Option<String> {
    let is = |word: &Value| match word.as_str().expect("a type is a string") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{at}: the checker does not support `{other}`"),
    };
    let fits = rule.as_array().map_or_else(|| is(rule), |words| words.iter().any(is));
    (!fits).then(|| format!("{at}: {value} is not of type {rule}"))
}

/// Returns every JSON document that a command printed in the transcripts.
fn documents(verb: &str) -> Vec<(String, Value)> {
    documents_in(verb, verb)
}

/// Returns every JSON document that a command printed in the transcripts of a folder.
fn documents_in(folder: &str, verb: &str) -> Vec<(String, Value)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = directory.join("tests/transcripts").join(folder);
    let mut found = vec![];
    for entry in std::fs::read_dir(directory).expect("the directory can be read").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("transcripts can be read");
        for console in text.split("```console\n").skip(1) {
            let console = console.split("\n```").next().unwrap_or_default();
            for session in console.split("\n$ ") {
                let (command, output) = session.split_once('\n').unwrap_or((session, ""));
                if command.contains(&format!(" {verb} ")) && command.contains("-o json") {
                    let lines = output.lines().filter(|line| !line.starts_with(['2', '?']));
                    let text = lines.collect::<Vec<_>>().join("\n");
                    let document = serde_json::from_str(&text).expect(command);
                    found.push((command.to_owned(), document));
                }
            }
        }
    }
    found
}

#[test]
fn plan_documents_match_the_schema() {
    let schema = schema(PLAN);
    let documents = documents("plan");
    assert!(documents.len() >= 3, "{}", documents.len());
    for (command, document) in documents {
        let violations = violations(&schema, &schema, &document, "");
        assert_eq!(violations, [""; 0], "{command}");
    }
}

#[test]
fn drift_documents_match_the_schema() {
    let schema = schema(DRIFT);
    let documents = documents("drift");
    assert!(!documents.is_empty());
    for (command, document) in documents {
        let violations = violations(&schema, &schema, &document, "");
        assert_eq!(violations, [""; 0], "{command}");
    }
}

#[test]
fn doctor_documents_match_the_schema() {
    let schema = schema(DOCTOR);
    let documents = documents_in("volume", "doctor");
    assert!(documents.len() >= 3, "{}", documents.len());
    for (command, document) in documents {
        let violations = violations(&schema, &schema, &document, "");
        assert_eq!(violations, [""; 0], "{command}");
    }
}

/// Makes a valid document invalid.
type MakeInvalid = fn(&mut Value);

#[test]
fn the_checker_finds_violations() {
    let schema = schema(PLAN);
    let (_, good) = documents("plan").swap_remove(0);
    let broken: [(&str, MakeInvalid); 5] = [
        ("is missing", |plan| {
            drop(plan.as_object_mut().expect("an object is required").remove("server"));
        }),
        ("is not in the schema", |plan| plan["more"] = json!(1)),
        ("is not of type", |plan| plan["server"] = json!(1)),
        ("is not", |plan| plan["format_version"] = json!(2)),
        ("is not", |plan| {
            plan["volumes"][0]["action"] = json!("destroy");
        }),
    ];
    for (expected, make_invalid) in broken {
        let mut plan = good.clone();
        make_invalid(&mut plan);
        let found = violations(&schema, &schema, &plan, "");
        assert_eq!(found.len(), 1, "{expected}: {found:?}");
        assert!(found[0].contains(expected), "{found:?}");
    }
}
