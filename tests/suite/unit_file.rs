//! The example of a systemd unit keeps what tasks and volumes depend on.

use std::path::Path;

#[test]
fn the_unit_file_lets_tasks_and_mounts_outlive_the_agent() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/nomad-csi.service");
    let text = std::fs::read_to_string(path).expect("the file is readable");
    let settings: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .collect();
    for needed in [
        ("KillMode", "process"),
        ("OOMPolicy", "continue"),
        ("Delegate", "cpu memory pids"),
        ("DelegateSubgroup", "agent"),
        ("Type", "notify"),
    ] {
        assert!(settings.contains(&needed), "{needed:?}");
    }
    // Each of these puts the mounts into a namespace of the unit.
    let separating = ["PrivateMounts", "PrivateTmp", "ProtectSystem", "MountFlags"];
    for (name, _) in settings {
        let separates = separating.contains(&name) || name.ends_with("Paths");
        assert!(!separates, "{name} separates the mounts");
    }
}
