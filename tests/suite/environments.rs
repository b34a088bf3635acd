//! The example of five teams and three environments is valid for each of them.

use std::path::Path;

use nomad_csi::cli::Exit;

use crate::support::hermetic::run_in;

/// The volumes of each team in development, test and production.
const TEAMS: [(&str, [usize; 3]); 5] = [
    ("payments", [3, 3, 4]),
    ("search", [1, 1, 3]),
    ("catalog", [2, 2, 5]),
    ("ml", [1, 1, 1]),
    ("platform", [2, 2, 2]),
];

const ENVIRONMENTS: [&str; 3] = ["dev", "test", "prod"];

/// Returns the arguments that name the files of a team in an environment.
fn arguments(team: &str, environment: &str) -> String {
    let mut arguments = format!("shared teams/{team} --var-file envs/{environment}.vars.hcl");
    let own = format!("envs/{environment}-{team}.vars.hcl");
    if example().join(&own).exists() {
        arguments.extend([" --var-file ", &own]);
    }
    arguments
}

fn example() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("specs/environments")
}

#[test]
fn every_team_is_valid_in_every_environment() {
    for (team, counts) in TEAMS {
        for (environment, count) in ENVIRONMENTS.iter().zip(counts) {
            let line = format!("validate -o json {}", arguments(team, environment));
            let run = run_in(&example(), &line, |_| {});
            assert_eq!(run.exit, Exit::Done, "{team}, {environment}: {}", run.text);
            let report: serde_json::Value =
                serde_json::from_str(&run.text).expect("no output but the report");
            assert_eq!(report["volumes"], count, "{team}, {environment}");
            assert_eq!(report["diagnostics"], serde_json::json!([]), "{team}, {environment}");
        }
    }
}

#[test]
fn what_is_printed_of_an_environment_can_be_read_again() {
    let directory = tempfile::tempdir().expect("a new directory");
    for (team, counts) in TEAMS {
        for (environment, count) in ENVIRONMENTS.iter().zip(counts) {
            for syntax in ["hcl", "yaml", "json"] {
                let line = format!("render -o {syntax} {}", arguments(team, environment));
                let run = run_in(&example(), &line, |_| {});
                assert_eq!(run.exit, Exit::Done, "{line}: {}", run.text);
                assert!(run.text.contains(&format!("{team}-{environment}")), "{line}: the set");
                // Flags are not printed.
                let is_whole = !run.text.contains("sensitive");
                let name = format!("rendered.{syntax}");
                std::fs::write(directory.path().join(&name), &run.text).expect("a writable file");
                let read = run_in(directory.path(), &format!("validate {name}"), |_| {});
                let valid = match count {
                    1 => "valid: 1 volume in 1 file\n".to_owned(),
                    count => format!("valid: {count} volumes in 1 file\n"),
                };
                assert_eq!(read.text == valid, is_whole, "{line}: {}", read.text);
            }
        }
    }
}
