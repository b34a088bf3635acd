//! The pages for people who come from other tools: their sessions print what the program prints, and every command beside one of
//! another tool exists.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::transcript;

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)
}

#[test]
fn the_session_for_users_of_nomad_is_real() {
    transcript::check(&page("from-nomad.md"));
}

#[test]
fn the_session_for_users_of_terraform_is_real() {
    transcript::check(&page("from-terraform.md"));
}

#[test]
fn the_session_for_users_of_kubectl_is_real() {
    transcript::check(&page("from-kubectl.md"));
}

#[test]
fn every_command_in_the_tables_exists() {
    let mut count = 0;
    for name in ["from-nomad.md", "from-terraform.md", "from-kubectl.md"] {
        let text = std::fs::read_to_string(page(name)).expect("the page is readable");
        for row in text.lines().filter(|line| line.starts_with("| ")) {
            for command in row.split('`').filter_map(|text| text.strip_prefix("nomad-csi ")) {
                // With `--help`, everything before it must be part of the command.
                let output = Command::new(env!("CARGO_BIN_EXE_nomad-csi"))
                    .env_clear()
                    .args(command.split(' '))
                    .arg("--help")
                    .output()
                    .expect("the program starts");
                let problem = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{name}: {command}: {problem}");
                count += 1;
            }
        }
    }
    assert!(count > 35, "{count}");
}
