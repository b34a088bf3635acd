//! `plan -o json` and `drift -o json` against `docs/schemas`: every document that a transcript shows is
//! of the shape that stands there. Checked is as much of JSON Schema as those files use.

use std::path::Path;

use serde_json::{Value, json};

const PLAN: &str = include_str!("../../docs/schemas/plan.v1.json");
const DRIFT: &str = include_str!("../../docs/schemas/drift.v1.json");

fn schema(text: &str) -> Value {
    serde_json::from_str(text).expect("the schema is JSON")
}

/// Where a document is not as the schema says; `at` names the place.
fn violations(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = vec![];
    for (keyword, says) in schema.as_object().expect("a schema is an object") {
        match keyword.as_str() {
            "$schema" | "title" | "description" | "$defs" => {}
            "$ref" => {
                let path = says.as_str().expect("a text").trim_start_matches('#');
                let target = root.pointer(path).expect("the reference has a target");
                found.extend(violations(root, target, value, at));
            }
            "const" if says == value => {}
            "enum" if says.as_array().expect("a list").contains(value) => {}
            "const" | "enum" => found.push(format!("{at}: {value} is not {says}")),
            "type" => found.extend(of_type(says, value, at)),
            "anyOf" => {
                let any = says.as_array().expect("a list");
                let fits = |schema: &Value| violations(root, schema, value, at).is_empty();
                if !any.iter().any(fits) {
                    found.push(format!("{at}: {value} fits none"));
                }
            }
            "items" => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                for (index, item) in items.iter().enumerate() {
                    found.extend(violations(root, says, item, &format!("{at}/{index}")));
                }
            }
            "required" => {
                let missing = says.as_array().expect("a list").iter();
                let missing =
                    missing.filter(|key| value.get(key.as_str().expect("a key")).is_none());
                found.extend(missing.map(|key| format!("{at}: {key} is missing")));
            }
            "properties" => {
                for (key, property) in says.as_object().expect("an object") {
                    let below = value.get(key);
                    let of = |below| violations(root, property, below, &format!("{at}/{key}"));
                    found.extend(below.map(of).unwrap_or_default());
                }
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object().expect("an object");
                let keys = value
                    .as_object()
                    .into_iter()
                    .flat_map(serde_json::Map::keys);
                let strange = keys.filter(|key| !known.contains_key(*key));
                found.extend(strange.map(|key| format!("{at}: {key} is not in the schema")));
            }
            other => panic!("{at}: this checker does not know `{other}`"),
        }
    }
    found
}

fn of_type(says: &Value, value: &Value, at: &str) -> Option<String> {
    let is = |word: &Value| match word.as_str().expect("a word") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{at}: this checker does not know `{other}`"),
    };
    let fits = says
        .as_array()
        .map_or_else(|| is(says), |words| words.iter().any(is));
    (!fits).then(|| format!("{at}: {value} is not of type {says}"))
}

/// Every document that a `plan … -o json`, or whichever command, in a transcript printed.
fn documents(verb: &str) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("tests/transcripts").join(verb);
    let mut found = vec![];
    for entry in std::fs::read_dir(folder)
        .expect("the folder is readable")
        .flatten()
    {
        let text = std::fs::read_to_string(entry.path()).expect("transcripts are readable");
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
fn what_plan_prints_is_as_the_schema_says() {
    let schema = schema(PLAN);
    let documents = documents("plan");
    assert!(documents.len() >= 3, "{}", documents.len());
    for (command, document) in documents {
        let violations = violations(&schema, &schema, &document, "");
        assert_eq!(violations, [""; 0], "{command}");
    }
}

#[test]
fn what_drift_prints_is_as_the_schema_says() {
    let schema = schema(DRIFT);
    let documents = documents("drift");
    assert!(!documents.is_empty());
    for (command, document) in documents {
        let violations = violations(&schema, &schema, &document, "");
        assert_eq!(violations, [""; 0], "{command}");
    }
}

/// Makes a good document a bad one.
type Spoil = fn(&mut Value);

/// The checker finds what is wrong, so that finding nothing says something.
#[test]
fn the_checker_finds_what_is_wrong() {
    let schema = schema(PLAN);
    let (_, good) = documents("plan").swap_remove(0);
    let broken: [(&str, Spoil); 5] = [
        ("is missing", |plan| {
            drop(plan.as_object_mut().expect("an object").remove("server"));
        }),
        ("is not in the schema", |plan| plan["more"] = json!(1)),
        ("is not of type", |plan| plan["server"] = json!(1)),
        ("is not", |plan| plan["format_version"] = json!(2)),
        ("is not", |plan| {
            plan["volumes"][0]["action"] = json!("destroy");
        }),
    ];
    for (expected, spoil) in broken {
        let mut plan = good.clone();
        spoil(&mut plan);
        let found = violations(&schema, &schema, &plan, "");
        assert_eq!(found.len(), 1, "{expected}: {found:?}");
        assert!(found[0].contains(expected), "{found:?}");
    }
}
