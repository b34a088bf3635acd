//! `volume init --plugin` against an agent: what it writes is valid, can be planned, and can be created,
//! for plugins with different capabilities.

use std::path::Path;

use crate::agent_process::{AgentProcess, program};
use crate::reconcile::address;

/// Capabilities that the plugin lacks, and topologies that it has.
const PROFILES: [&[&str]; 5] = [
    &[],
    &["--plugin-without", "EXPAND_VOLUME", "--plugin-without", "CLONE_VOLUME"],
    &["--plugin-without", "CREATE_DELETE_SNAPSHOT", "--plugin-backing", "directory"],
    &[
        "--plugin-topology",
        "topology.example/zone=a",
        "--plugin-topology",
        "topology.example/rack=1",
    ],
    &["--plugin-without", "NODE_SERVICE"],
];

/// Runs a command on the agent. Returns its exit code and its output.
fn run(agent: &AgentProcess, folder: &Path, line: &str) -> (Option<i32>, String) {
    let output = program(line.split(' '))
        .args(["--address", &address(agent)])
        .current_dir(folder)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn start(data: &Path, profile: &[&str]) -> AgentProcess {
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data).args(profile);
    AgentProcess::run(command)
}

#[test]
fn the_specification_for_a_plugin_is_valid_and_can_be_created() {
    for profile in PROFILES {
        let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let agent = start(data.path(), profile);
        let done = |line: &str, expected: i32| {
            let (code, text) = run(&agent, folder.path(), line);
            assert_eq!(code, Some(expected), "{profile:?}: {line}\n{text}");
        };
        for file in ["volume.hcl", "volume.yaml", "volume.json"] {
            done(&format!("volume init --plugin hostpath {file}"), 0);
            done(&format!("validate -f {file}"), 0);
            done(&format!("plan -f {file}"), 2);
            done(&format!("volume create -f {file}"), 0);
            done(&format!("plan -f {file}"), 0);
            done("volume delete example --yes", 0);
        }
        agent.stop();
    }
}

/// A plugin that creates nothing gets a specification to register, which the reader completes.
#[test]
fn a_plugin_without_creation_gets_a_volume_to_register() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let agent = start(data.path(), &["--plugin-without", "CREATE_DELETE_VOLUME"]);
    let (code, text) = run(&agent, folder.path(), "volume init --plugin hostpath");
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run(&agent, folder.path(), "validate -f volume.hcl");
    assert_eq!(code, Some(0), "{text}");
    let written = std::fs::read_to_string(folder.path().join("volume.hcl")).unwrap();
    assert!(written.contains("external_id = \"example\""), "{written}");
}
