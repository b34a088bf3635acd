//! Checks every `plan -o json`, `drift -o json` and `volume doctor -o json` document of the transcripts against `docs/schemas`.

use std::path::Path;

use serde_json::{Value, json};

use crate::json_schema::violations;

const PLAN: &str = include_str!("../../docs/schemas/plan.v1.json");
const PLANS: &str = include_str!("../../docs/schemas/plans.v1.json");
const DRIFT: &str = include_str!("../../docs/schemas/drift.v1.json");
const DOCTOR: &str = include_str!("../../docs/schemas/doctor.v1.json");

fn schema(text: &str) -> Value {
    serde_json::from_str(text).expect("the schema is JSON")
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
fn documents_of_several_plans_match_both_schemas() {
    let (several, one) = (schema(PLANS), schema(PLAN));
    let documents = documents_in("set", "plan");
    assert!(!documents.is_empty());
    for (command, mut document) in documents {
        assert_eq!(violations(&several, &several, &document, ""), [""; 0], "{command}");
        let runs = document["runs"].as_array_mut().expect("an array of runs");
        assert!(runs.len() > 1, "{command}");
        for run in runs {
            let run_keys = run.as_object_mut().expect("a run is an object");
            for key in ["directory", "exit_code"] {
                assert!(run_keys.remove(key).is_some(), "{command}: {key}");
            }
            assert_eq!(violations(&one, &one, run, ""), [""; 0], "{command}");
        }
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
