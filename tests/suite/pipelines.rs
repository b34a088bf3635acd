//! The commands of `docs/pipelines.md` run in the order of the page, one session per system.
//!
//! Every command that needs a server embeds an agent.

use std::path::Path;

use crate::support::transcript;

const SPECIFICATION: &str = r#"
volume "db" {
  type      = "csi"
  name      = "db"
  plugin_id = "hostpath"

  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
"#;

/// Returns the commands of the fenced block under a heading, without what the shell does after them.
fn commands(heading: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pipelines.md");
    let text = std::fs::read_to_string(path).expect("the page is readable");
    let (_, section) =
        text.split_once(&format!("\n## {heading}\n")).expect("the page has the section");
    let block = section.split("```").nth(1).expect("the section has a block");
    let found = block.lines().filter_map(|line| line.find("nomad-csi ").map(|at| &line[at..]));
    found.map(|line| line.split(" || ").next().unwrap_or(line).to_owned()).collect()
}

/// Runs the commands of a section, and returns the transcript.
fn session(heading: &str) -> String {
    let lines = commands(heading);
    assert_eq!(lines.len(), 4, "validate, plan, apply, drift: {lines:?}");
    let commands = lines.iter().map(|line| match line.starts_with("nomad-csi validate") {
        true => format!("$ {line}\n"),
        false => format!("$ {line} --embedded=state\n"),
    });
    let console: String = commands.collect();
    let text =
        format!("```hcl volumes/db.hcl{SPECIFICATION}```\n\n```console\n{console}$ ls\n```\n");
    transcript::replay(&text)
}

/// Returns the exit code of the command that starts with these words.
fn exit_code(session: &str, command: &str) -> u8 {
    let (_, after) = session.split_once(&format!("$ {command} ")).expect("the command ran");
    let output = after.lines().skip(1).take_while(|line| !line.starts_with("$ "));
    let code = output.filter_map(|line| line.strip_prefix("? ")).next();
    code.map_or(0, |code| code.parse().expect("an exit code"))
}

#[test]
fn every_command_runs_and_writes_its_reports() {
    for (heading, reports) in [
        ("GitHub", ["apply.xml", "plan.md", "validate.sarif"]),
        ("GitLab", ["drift.xml", "plan.xml", "quality.json"]),
    ] {
        let session = session(heading);
        for (command, expected) in [
            ("nomad-csi validate", 0),
            ("nomad-csi plan", 2),
            ("nomad-csi apply", 0),
            ("nomad-csi drift", 0),
        ] {
            let code = exit_code(&session, command);
            assert_eq!(code, expected, "{heading}: {command}\n{session}");
        }
        for report in reports {
            let is_written = session.lines().any(|line| line == report);
            assert!(is_written, "{heading}: {report}\n{session}");
        }
    }
}
